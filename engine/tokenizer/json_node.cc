#include "engine/tokenizer/json_node.h"

#include <algorithm>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {

JsonNode JsonNode::Field(std::string_view name) const {
  static const nlohmann::json kNull;
  const std::string key(name);
  const std::string path = path_.empty() ? key : path_ + "." + key;
  if (value_->is_object()) {
    if (const auto found = value_->find(key); found != value_->end()) {
      return JsonNode(*found, source_, path);
    }
  }
  return JsonNode(kNull, source_, path);
}

absl::StatusOr<std::string> JsonNode::String() const {
  if (!value_->is_string()) return Error("must be a string");
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonNode::Bool() const {
  if (!value_->is_boolean()) return Error("must be true or false");
  return value_->get<bool>();
}

absl::StatusOr<bool> JsonNode::Bool(bool when_null) const {
  if (IsNull()) return when_null;
  return Bool();
}

absl::StatusOr<int32_t> JsonNode::TokenId() const {
  if (value_->is_number_integer()) {
    const auto id = value_->get<int64_t>();
    if (id >= 0 && id <= kMaxTokenId) return static_cast<int32_t>(id);
  }
  return Error("must be a token id, an integer from 0 to " + std::to_string(kMaxTokenId));
}

absl::StatusOr<std::vector<JsonNode>> JsonNode::Elements() const {
  if (!value_->is_array()) return Error("must be a list");
  std::vector<JsonNode> elements;
  elements.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.push_back(JsonNode((*value_)[i], source_, path_ + "[" + std::to_string(i) + "]"));
  }
  return elements;
}

absl::Status JsonNode::CheckObject() const {
  return value_->is_object() ? absl::OkStatus() : Error("must be an object");
}

absl::Status JsonNode::OnlyFields(std::initializer_list<std::string_view> names) const {
  FERMATA_RETURN_IF_ERROR(CheckObject());
  for (const auto& [key, unused] : value_->items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      return Error("has the field " + Quoted(key) + ", which is not supported");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonNode::Type() const {
  FERMATA_RETURN_IF_ERROR(CheckObject());
  return Field("type").String();
}

bool JsonNode::TypeIs(std::string_view type) const {
  const JsonNode field = Field("type");
  return field.IsString() && field.value_->get_ref<const std::string&>() == type;
}

std::string JsonNode::Where() const { return path_.empty() ? source_ : source_ + ": " + path_; }

absl::Status JsonNode::Error(std::string_view why) const {
  return absl::InvalidArgumentError(Where() + ": " + std::string(why));
}

}  // namespace fermata
