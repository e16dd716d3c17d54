#include "engine/base/error.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

constexpr char kPayloadUrl[] = "fermata/error-details";

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view message,
                       const ErrorDetails& details) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  nlohmann::json payload = {{"reason", details.reason}, {"metadata", details.metadata}};
  if (details.retry_after.has_value()) {
    payload["retry_ns"] = absl::ToInt64Nanoseconds(*details.retry_after);
  }
  // Metadata may quote a client's bytes; an invalid one must not make the error itself fail.
  status.SetPayload(kPayloadUrl, absl::Cord(payload.dump(
                                     -1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view why) {
  const std::string name(field);
  return MakeError(absl::StatusCode::kInvalidArgument, name + ": " + std::string(why),
                   {.reason = "INVALID_FIELD", .metadata = {{"field", name}}, .retry_after = {}});
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  details.reason = absl::StatusCodeToString(status.code());
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return details;
  const nlohmann::json json = nlohmann::json::parse(std::string(*payload));
  details.reason = json.at("reason").get<std::string>();
  details.metadata = json.at("metadata").get<std::map<std::string, std::string>>();
  if (json.contains("retry_ns")) {
    details.retry_after = absl::Nanoseconds(json.at("retry_ns").get<int64_t>());
  }
  return details;
}

}  // namespace fermata
