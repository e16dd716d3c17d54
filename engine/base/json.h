#ifndef FERMATA_ENGINE_BASE_JSON_H_
#define FERMATA_ENGINE_BASE_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace fermata {

// Objects and lists inside one another, at most. Values are walked recursively later, so that depth
// without bound would be a stack without bound.
inline constexpr int kMaxJsonDepth = 32;

// Parses one JSON value from a file that somebody else wrote. Stricter than nlohmann's own parser,
// which keeps the last of several equal keys in silence: a key that stands twice in one object is
// an error, and so is nesting deeper than kMaxJsonDepth.
//
// INVALID_ARGUMENT that begins with `source` and says where. Throws nothing, whatever the bytes.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source);

// A name from a file, fit for one line of an error: in quotes, all but printable ASCII escaped, cut
// when it is very long.
std::string Quoted(std::string_view name);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_JSON_H_
