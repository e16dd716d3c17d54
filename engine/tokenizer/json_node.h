#ifndef FERMATA_ENGINE_TOKENIZER_JSON_NODE_H_
#define FERMATA_ENGINE_TOKENIZER_JSON_NODE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace fermata {

// A value of a JSON file together with its path, so that every error says where:
// "<file>: pre_tokenizer.pretokenizers[1].pattern: <why>", INVALID_ARGUMENT. A view of the parsed
// file, which must outlive it. A field that is absent reads as null.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string source)
      : value_(&value), source_(std::move(source)) {}

  JsonNode Field(std::string_view name) const;
  bool IsNull() const { return value_->is_null(); }
  bool IsArray() const { return value_->is_array(); }
  bool IsString() const { return value_->is_string(); }

  absl::StatusOr<std::string> String() const;
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<bool> Bool(bool when_null) const;
  // A token id: an integer in [0, kMaxTokenId].
  absl::StatusOr<int32_t> TokenId() const;
  // The elements of a list.
  absl::StatusOr<std::vector<JsonNode>> Elements() const;
  // Error unless this is an object with no other fields than `names`: a field that is not known
  // may change the ids.
  absl::Status OnlyFields(std::initializer_list<std::string_view> names) const;
  // Error unless this is an object.
  absl::Status CheckObject() const;
  // The object's field "type".
  absl::StatusOr<std::string> Type() const;
  bool TypeIs(std::string_view type) const;

  // For large tables, which are walked without a node for each entry.
  const nlohmann::json& value() const { return *value_; }
  // The file and the path, as errors begin.
  std::string Where() const;
  absl::Status Error(std::string_view why) const;

 private:
  JsonNode(const nlohmann::json& value, std::string source, std::string path)
      : value_(&value), source_(std::move(source)), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;
};

inline constexpr int32_t kMaxTokenId = (1 << 24) - 1;

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_JSON_NODE_H_
