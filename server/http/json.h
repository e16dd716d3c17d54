#ifndef FERMATA_SERVER_HTTP_JSON_H_
#define FERMATA_SERVER_HTTP_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/http/message.h"

namespace fermata {

// What a request's body spells. INVALID_ARGUMENT with reason INVALID_JSON for other than JSON, for a key
// that stands twice, bytes that are not UTF-8, and nesting that is too deep.
absl::StatusOr<nlohmann::json> ParseBody(std::string_view body);
absl::Status InvalidJson(std::string_view why);

// One line of JSON text, with U+FFFD for bytes that are not UTF-8.
std::string Dump(const nlohmann::ordered_json& json);

// 200 with such a line.
HttpResponse JsonResponse(const nlohmann::ordered_json& json);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_JSON_H_
