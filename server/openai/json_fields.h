#ifndef FERMATA_SERVER_OPENAI_JSON_FIELDS_H_
#define FERMATA_SERVER_OPENAI_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace fermata {

// Reads the fields of a JSON object that a client sent, which must outlive this. A field that is absent
// or null is nullopt; one of a wrong type or out of range is INVALID_ARGUMENT, and named. Fields that
// nobody asks for are let be.
class JsonFields {
 public:
  // Error unless `value` is an object. `path` names it in errors: empty for the outermost.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& value, std::string path = "");

  // Null when absent or null.
  const nlohmann::json* Find(std::string_view name) const;

  absl::StatusOr<std::optional<bool>> Bool(std::string_view name) const;
  // An integer in [low, high].
  absl::StatusOr<std::optional<int64_t>> Int(std::string_view name, int64_t low,
                                             int64_t high) const;
  // A number in [low, high].
  absl::StatusOr<std::optional<double>> Number(std::string_view name, double low,
                                               double high) const;
  absl::StatusOr<std::optional<std::string>> String(std::string_view name) const;
  // A string, or a list of them; empty when absent.
  absl::StatusOr<std::vector<std::string>> Strings(std::string_view name) const;
  // A list of integers that may be token ids; empty when absent.
  absl::StatusOr<std::vector<int32_t>> TokenIds(std::string_view name) const;
  // Nullopt when absent or null.
  absl::StatusOr<std::optional<JsonFields>> Object(std::string_view name) const;

  // The name of a field in errors: "messages[1].content".
  std::string PathOf(std::string_view name) const;
  absl::Status Error(std::string_view name, std::string_view why) const;

 private:
  JsonFields(const nlohmann::json& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const nlohmann::json* object_;
  std::string path_;
};

// `value`, named `path` in errors, as a list of token ids: whether a vocabulary has them is not asked.
absl::StatusOr<std::vector<int32_t>> ToTokenIds(const nlohmann::json& value, std::string_view path);

// "path[index]".
std::string ElementPath(std::string_view path, size_t index);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_JSON_FIELDS_H_
