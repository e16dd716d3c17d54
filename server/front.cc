#include "server/front.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/error.h"
#include "server/logging.h"

namespace fermata {
namespace {

LogLevel LevelOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return LogLevel::kError;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return LogLevel::kWarning;
    default:
      return LogLevel::kInfo;  // The client's own doing.
  }
}

}  // namespace

CallRecord::CallRecord(Metrics* metrics, std::string_view method, std::string request_id)
    : metrics_(metrics),
      method_(method),
      request_id_(std::move(request_id)),
      arrival_(absl::Now()) {}

void CallRecord::Succeed(std::string_view outcome) {
  metrics_->RequestDone(method_, outcome, absl::Now() - arrival_);
}

void CallRecord::Fail(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  metrics_->RequestDone(method_, absl::AsciiStrToLower(details.reason), absl::Now() - arrival_);
  const auto field = details.metadata.find("field");
  const LogLevel level = LevelOf(status.code());
  LogEvent(level, "request_failed",
           {{"method", method_},
            {"request_id", request_id_},
            {"code", absl::StatusCodeToString(status.code())},
            {"reason", details.reason},
            {"field", field == details.metadata.end() ? "" : field->second},
            {"message", level == LogLevel::kError ? std::string(status.message()) : ""}});
}

absl::Status CheckKeepsSessions(const ModelInfo& model) {
  if (model.fixed_size_state) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "the state of this model grows with the position: it can not be kept",
                   {.reason = "UNBOUNDED_STATE", .metadata = {}, .retry_after = {}});
}

absl::Status CheckReplySize(const Front& front, size_t bytes) {
  if (bytes <= front.max_message_bytes) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the reply would have ", bytes, " bytes, more than the limit of ",
                                front.max_message_bytes),
                   {.reason = "RESPONSE_TOO_LARGE", .metadata = {}, .retry_after = {}});
}

}  // namespace fermata
