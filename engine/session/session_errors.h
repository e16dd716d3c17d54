#ifndef FERMATA_ENGINE_SESSION_SESSION_ERRORS_H_
#define FERMATA_ENGINE_SESSION_SESSION_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace fermata {

// The errors of SessionStore, each with metadata {"session_id"}.

// `status` with the session it is about; with `retry_after` where a limit was met.
absl::Status AboutSession(std::string_view id, const absl::Status& status,
                          absl::Duration retry_after);
absl::Status MissingSession(std::string_view id, bool lost);
absl::Status BusySession(std::string_view id, absl::Duration retry_after);
absl::Status ExistingSession(std::string_view id);
absl::Status PinnedSession(std::string_view id);
absl::Status NoCheckpoint(std::string_view id);
absl::Status PositionMismatch(std::string_view id, int64_t expected, int64_t actual);
absl::Status RevisionMismatch(std::string_view id, uint64_t expected, uint64_t actual);
// `position` of the newest whole snapshot, if there is one.
absl::Status DamagedSession(std::string_view id, std::optional<int64_t> position);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_ERRORS_H_
