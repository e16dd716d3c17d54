#include "server/openai/json_fields.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {

using nlohmann::json;

absl::StatusOr<JsonFields> JsonFields::Of(const json& value, std::string path) {
  if (!value.is_object()) return InvalidField(path.empty() ? "body" : path, "must be an object");
  return JsonFields(value, std::move(path));
}

std::string JsonFields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

absl::Status JsonFields::Error(std::string_view name, std::string_view why) const {
  return InvalidField(PathOf(name), why);
}

const json* JsonFields::Find(std::string_view name) const {
  const auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<std::optional<bool>> JsonFields::Bool(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Error(name, "must be true or false");
  return value->get<bool>();
}

absl::StatusOr<std::optional<int64_t>> JsonFields::Int(std::string_view name, int64_t low,
                                                       int64_t high) const {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) return Error(name, "must be an integer");
  // Beyond int64_t it is of another kind.
  const bool huge = value->is_number_unsigned() &&
                    value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  const int64_t number = huge ? high : value->get<int64_t>();
  if (huge || number < low || number > high) {
    return Error(name, absl::StrCat("must be in [", low, ", ", high, "]"));
  }
  return number;
}

absl::StatusOr<std::optional<double>> JsonFields::Number(std::string_view name, double low,
                                                         double high) const {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return Error(name, "must be a number");
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    return Error(name, absl::StrCat("must be in [", low, ", ", high, "]"));
  }
  return number;
}

absl::StatusOr<std::optional<std::string>> JsonFields::String(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Error(name, "must be a string");
  return value->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> JsonFields::Strings(std::string_view name) const {
  std::vector<std::string> strings;
  const json* value = Find(name);
  if (value == nullptr) return strings;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) return Error(name, "must be a string, or a list of strings");
  for (const json& element : *value) {
    if (!element.is_string()) {
      return InvalidField(ElementPath(PathOf(name), strings.size()), "must be a string");
    }
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::vector<int32_t>> JsonFields::TokenIds(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) return std::vector<int32_t>();
  return ToTokenIds(*value, PathOf(name));
}

absl::StatusOr<std::optional<JsonFields>> JsonFields::Object(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  FERMATA_ASSIGN_OR_RETURN(JsonFields fields, Of(*value, PathOf(name)));
  return fields;
}

absl::StatusOr<std::vector<int32_t>> ToTokenIds(const json& value, std::string_view path) {
  if (!value.is_array()) return InvalidField(path, "must be a list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const json& element : value) {
    constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
    if (!element.is_number_unsigned() || element.get<uint64_t>() > uint64_t{kLargest}) {
      return InvalidField(ElementPath(path, ids.size()), "must be a token id");
    }
    ids.push_back(element.get<int32_t>());
  }
  return ids;
}

std::string ElementPath(std::string_view path, size_t index) {
  return absl::StrCat(absl::string_view(path.data(), path.size()), "[", index, "]");
}

}  // namespace fermata
