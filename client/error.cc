#include "client/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fermata::client {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

// Parses the payload of type `url`; false when there is none.
template <typename Message>
bool Payload(const absl::Status& status, const char* url, Message* message) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() && message->ParseFromString(std::string(*payload));
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  // The numbers of both enumerations are those of google.rpc.Code.
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (out.ok() || !details.ParseFromString(status.error_details())) return out;
  for (const google::protobuf::Any& detail : details.details()) {
    out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return out;
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails out;
  if (google::rpc::ErrorInfo info; Payload(status, kErrorInfoUrl, &info)) {
    out.reason = info.reason();
    out.domain = info.domain();
    out.metadata.insert(info.metadata().begin(), info.metadata().end());
  }
  if (google::rpc::RetryInfo retry; Payload(status, kRetryInfoUrl, &retry)) {
    out.retry_after = absl::Seconds(retry.retry_delay().seconds()) +
                      absl::Nanoseconds(retry.retry_delay().nanos());
  }
  return out;
}

std::string Describe(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  std::string out = absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                                 absl::string_view(status.message()));
  if (!details.reason.empty()) absl::StrAppend(&out, " [", details.reason, "]");
  if (details.retry_after) {
    absl::StrAppend(&out, " (retry after ", absl::FormatDuration(*details.retry_after), ")");
  }
  return out;
}

}  // namespace fermata::client
