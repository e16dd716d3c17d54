#ifndef FERMATA_ENGINE_MODEL_LAYOUTS_READING_H_
#define FERMATA_ENGINE_MODEL_LAYOUTS_READING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/model/checkpoint.h"
#include "nlohmann/json.hpp"

namespace fermata {

// What layouts read from names, shapes and configs when they make a canonical config.

// The number of elements along one axis of a tensor. NOT_FOUND or INVALID_ARGUMENT that names the
// tensor, when it is missing or has no such axis.
absl::StatusOr<int64_t> Extent(const Checkpoint& checkpoint, const std::string& name, size_t axis);
// The number of its elements.
absl::StatusOr<int64_t> Elements(const Checkpoint& checkpoint, const std::string& name);

// How many consecutive numbers, from 0 on, can stand between `prefix` and `suffix` in a name.
int64_t CountBlocks(const Checkpoint& checkpoint, const std::string& prefix,
                    const std::string& suffix);

// Passes on what a config says of the tokens that begin and end a text.
absl::Status PassTokensOn(ConfigReader& file, nlohmann::json& made);

// Whether a tensor's name ends so.
bool AnyEndsWith(const Checkpoint& checkpoint, std::string_view suffix);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUTS_READING_H_
