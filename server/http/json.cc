#include "server/http/json.h"

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace fermata {

using nlohmann::ordered_json;

absl::StatusOr<nlohmann::json> ParseBody(std::string_view body) {
  absl::StatusOr<nlohmann::json> value = ParseJson(body, "body");
  if (value.ok()) return value;
  return InvalidJson({value.status().message().data(), value.status().message().size()});
}

absl::Status InvalidJson(std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, why,
                   {.reason = "INVALID_JSON", .metadata = {}, .retry_after = {}});
}

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

HttpResponse JsonResponse(const ordered_json& json) { return JsonResponse(Dump(json) + "\n"); }

}  // namespace fermata
