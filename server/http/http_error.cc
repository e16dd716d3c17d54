#include "server/http/http_error.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/http/json.h"

namespace fermata {
namespace {

using nlohmann::ordered_json;

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;  // The client is gone: nobody reads it.
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

const char* TypeOf(int status) {
  switch (status) {
    case 404:
      return "not_found_error";
    case 409:
    case 412:
      return "conflict_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

// Those that OpenAI's clients send again on their own.
bool ClientsRetry(int status) {
  return status == 408 || status == 409 || status == 429 || status >= 500;
}

ordered_json Body(int status, std::string_view message, const ErrorDetails& details) {
  ordered_json error = {{"message", message}, {"type", TypeOf(status)}};
  const auto field = details.metadata.find("field");
  error["param"] = field == details.metadata.end() ? ordered_json() : ordered_json(field->second);
  error["code"] = details.reason;
  error["metadata"] = ordered_json::object();
  for (const auto& [key, value] : details.metadata) error["metadata"][key] = value;
  return ordered_json{{"error", std::move(error)}};
}

HttpResponse Response(int status, std::string_view message, const ErrorDetails& details) {
  HttpResponse response = JsonResponse(Body(status, message, details));
  response.status = status;
  if (details.retry_after.has_value()) {
    const int64_t milliseconds =
        std::max<int64_t>(0, absl::ToInt64Milliseconds(*details.retry_after));
    response.headers.emplace_back("Retry-After", absl::StrCat((milliseconds + 999) / 1000));
    response.headers.emplace_back("Retry-After-Ms", absl::StrCat(milliseconds));
  } else if (ClientsRetry(status)) {
    response.headers.emplace_back("X-Should-Retry", "false");
  }
  return response;
}

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  // What If-Match asks for, however it was asked.
  if (DetailsOf(status).reason == "REVISION_MISMATCH") return 412;
  return HttpStatusOf(status.code());
}

HttpResponse ErrorResponse(const absl::Status& status) {
  return Response(HttpStatusOf(status), MessageOf(status), DetailsOf(status));
}

ordered_json ErrorBody(const absl::Status& status) {
  return Body(HttpStatusOf(status), MessageOf(status), DetailsOf(status));
}

HttpResponse HttpError(int status, std::string_view reason, std::string_view message) {
  return Response(status, message,
                  {.reason = std::string(reason), .metadata = {}, .retry_after = {}});
}

}  // namespace fermata
