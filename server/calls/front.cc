#include "server/calls/front.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/error.h"
#include "server/observe/logging.h"
#include "server/observe/span.h"

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

CallRecord::CallRecord(Metrics* metrics, std::string_view method, std::string request_id,
                       CallOrigin origin)
    : metrics_(metrics),
      method_(method),
      request_id_(std::move(request_id)),
      origin_(std::move(origin)),
      arrival_(absl::Now()) {}

void CallRecord::Succeed(std::string_view outcome) { End(outcome); }

void CallRecord::Fail(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const auto field = details.metadata.find("field");
  const LogLevel level = LevelOf(status.code());
  LogEvent(level, "request_failed",
           {{"method", method_},
            {"request_id", request_id_},
            {"trace_id", trace().trace_id},
            {"span_id", trace().span_id},
            {"parent_span_id", trace().parent_span_id},
            {"code", absl::StatusCodeToString(status.code())},
            {"reason", details.reason},
            {"field", field == details.metadata.end() ? "" : field->second},
            {"message", level == LogLevel::kError ? std::string(status.message()) : ""}});
  End(absl::AsciiStrToLower(details.reason));
}

void CallRecord::End(std::string_view outcome) {
  const absl::Duration duration = absl::Now() - arrival_;
  metrics_->RequestDone(origin_.front, method_, outcome, duration);
  LogSpan({.name = method_,
           .trace = &trace(),
           .start = arrival_,
           .duration = duration,
           .front = FrontName(origin_.front),
           .outcome = outcome,
           .request_id = request_id_});
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

absl::Status TooManyWait() {
  return MakeError(absl::StatusCode::kResourceExhausted, "too many calls wait",
                   {.reason = "QUEUE_FULL", .metadata = {}, .retry_after = absl::Seconds(1)});
}

}  // namespace fermata
