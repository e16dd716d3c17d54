#include "engine/session/session_errors.h"

#include <map>
#include <string>

#include "engine/base/error.h"

namespace fermata {
namespace {

absl::Status Make(absl::StatusCode code, std::string_view reason, std::string_view message,
                  std::string_view id, std::map<std::string, std::string> metadata = {}) {
  metadata.emplace("session_id", id);
  return MakeError(code, message,
                   {.reason = std::string(reason), .metadata = metadata, .retry_after = {}});
}

}  // namespace

absl::Status AboutSession(std::string_view id, const absl::Status& status,
                          absl::Duration retry_after) {
  ErrorDetails details = DetailsOf(status);
  details.metadata.emplace("session_id", id);
  if (absl::IsResourceExhausted(status) && !details.retry_after.has_value()) {
    details.retry_after = retry_after;
  }
  return MakeError(status.code(), std::string(status.message()), details);
}

absl::Status MissingSession(std::string_view id, bool lost) {
  return lost ? Make(absl::StatusCode::kNotFound, "SESSION_EXPIRED",
                     "the session has expired or was evicted", id)
              : Make(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "no such session", id);
}

absl::Status BusySession(std::string_view id, absl::Duration retry_after) {
  return MakeError(absl::StatusCode::kAborted, "the session is in another turn",
                   {.reason = "SESSION_BUSY",
                    .metadata = {{"session_id", std::string(id)}},
                    .retry_after = retry_after});
}

absl::Status ExistingSession(std::string_view id) {
  return Make(absl::StatusCode::kAlreadyExists, "SESSION_EXISTS", "there is a session of that id",
              id);
}

absl::Status PinnedSession(std::string_view id) {
  return Make(absl::StatusCode::kFailedPrecondition, "SESSION_PINNED",
              "the session is pinned: it can be forked, not changed", id);
}

absl::Status NoCheckpoint(std::string_view id) {
  return Make(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
              "the session has no checkpoint there", id);
}

absl::Status PositionMismatch(std::string_view id, int64_t expected, int64_t actual) {
  return Make(absl::StatusCode::kAborted, "POSITION_MISMATCH",
              "the session is at position " + std::to_string(actual) + ", not at " +
                  std::to_string(expected),
              id, {{"position", std::to_string(actual)}});
}

absl::Status RevisionMismatch(std::string_view id, uint64_t expected, uint64_t actual) {
  return Make(absl::StatusCode::kAborted, "REVISION_MISMATCH",
              "the session is at revision " + std::to_string(actual) + ", not at " +
                  std::to_string(expected),
              id, {{"revision", std::to_string(actual)}});
}

absl::Status DamagedSession(std::string_view id, std::optional<int64_t> position) {
  if (!position.has_value()) {
    return Make(absl::StatusCode::kDataLoss, "SNAPSHOT_DAMAGED",
                "the session was altered where it lay, and no whole snapshot of it is left", id);
  }
  return Make(absl::StatusCode::kDataLoss, "SNAPSHOT_DAMAGED",
              "the session was altered where it lay; it goes on from its newest whole snapshot, at "
              "position " +
                  std::to_string(*position),
              id, {{"position", std::to_string(*position)}});
}

}  // namespace fermata
