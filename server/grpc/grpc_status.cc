#include "server/grpc/grpc_status.h"

#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

// gRPC's clients refuse trailers of more than 8 KiB in all. The message is sent twice, once in
// percent encoding that can triple it.
constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxValueBytes = 256;
constexpr size_t kMaxEntries = 8;

// The longest prefix of whole characters within `limit` bytes.
std::string_view Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

// At most `limit` bytes of `text`, with U+FFFD for bytes that are not UTF-8.
std::string Utf8Prefix(std::string_view text, size_t limit) {
  const std::string quoted = nlohmann::json(Cut(text, limit))
                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string valid = nlohmann::json::parse(quoted).get<std::string>();
  return std::string(Cut(valid, limit));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view text = status.message();
  const std::string message = Utf8Prefix({text.data(), text.size()}, kMaxMessageBytes);
  const ErrorDetails details = DetailsOf(status);

  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(details.reason);
  info.set_domain("fermata");
  size_t entries = 0;
  for (const auto& [key, value] : details.metadata) {
    if (++entries > kMaxEntries) break;
    (*info.mutable_metadata())[Utf8Prefix(key, kMaxValueBytes)] = Utf8Prefix(value, kMaxValueBytes);
  }
  proto.add_details()->PackFrom(info);
  if (details.retry_after.has_value()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest = *details.retry_after;
    retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
    retry.mutable_retry_delay()->set_nanos(absl::ToInt64Nanoseconds(rest));
    proto.add_details()->PackFrom(retry);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      proto.SerializeAsString());
}

}  // namespace fermata
