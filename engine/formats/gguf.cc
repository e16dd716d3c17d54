#include "engine/formats/gguf.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/byte_reader.h"

namespace fermata {
namespace {

template <typename T>
T ElementAt(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

absl::Status GgufFile::Error(std::string_view key, std::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(source_, ": key ", Quoted(key), ": ",
                                                 absl::string_view(why.data(), why.size())));
}

absl::Status GgufFile::WrongType(std::string_view key, const Value& value,
                                 std::string_view wanted) const {
  static constexpr std::string_view kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                "int32",  "float32", "bool",   "string", "array",
                                                "uint64", "int64",   "float64"};
  const std::string name(kNames[static_cast<size_t>(value.type)]);
  return Error(key, absl::StrCat(value.is_array ? "an array of " : "of type ", name, ", wanted ",
                                 std::string(wanted)));
}

const GgufFile::Value* GgufFile::Find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

absl::StatusOr<const GgufFile::Value*> GgufFile::FindOne(std::string_view key,
                                                         bool has_fallback) const {
  const Value* value = Find(key);
  if (value == nullptr && !has_fallback) return Error(key, "missing");
  if (value != nullptr && value->is_array) return WrongType(key, *value, "one value");
  return value;
}

absl::StatusOr<int64_t> GgufFile::IntAt(std::string_view key, const Value& value,
                                        uint64_t index) const {
  switch (value.type) {
    case Type::kUint8:
      return ElementAt<uint8_t>(value.bytes, index);
    case Type::kInt8:
      return ElementAt<int8_t>(value.bytes, index);
    case Type::kUint16:
      return ElementAt<uint16_t>(value.bytes, index);
    case Type::kInt16:
      return ElementAt<int16_t>(value.bytes, index);
    case Type::kUint32:
      return ElementAt<uint32_t>(value.bytes, index);
    case Type::kInt32:
      return ElementAt<int32_t>(value.bytes, index);
    case Type::kInt64:
      return ElementAt<int64_t>(value.bytes, index);
    case Type::kUint64: {
      const auto result = ElementAt<uint64_t>(value.bytes, index);
      if (result > static_cast<uint64_t>(INT64_MAX)) {
        return Error(key, absl::StrCat(result, " is too large"));
      }
      return static_cast<int64_t>(result);
    }
    default:
      return WrongType(key, value, "an integer");
  }
}

absl::StatusOr<double> GgufFile::NumberAt(std::string_view key, const Value& value,
                                          uint64_t index) const {
  if (value.type == Type::kFloat32) return ElementAt<float>(value.bytes, index);
  if (value.type == Type::kFloat64) return ElementAt<double>(value.bytes, index);
  if (value.type == Type::kBool || value.type == Type::kString) {
    return WrongType(key, value, "a number");
  }
  FERMATA_ASSIGN_OR_RETURN(const int64_t integer, IntAt(key, value, index));
  return static_cast<double>(integer);
}

absl::StatusOr<int64_t> GgufFile::Int(std::string_view key, int64_t low, int64_t high,
                                      std::optional<int64_t> fallback) const {
  FERMATA_ASSIGN_OR_RETURN(const Value* value, FindOne(key, fallback.has_value()));
  if (value == nullptr) return *fallback;
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Ints(key, low, high));
  return values.front();
}

absl::StatusOr<double> GgufFile::Number(std::string_view key, double low, double high,
                                        std::optional<double> fallback) const {
  FERMATA_ASSIGN_OR_RETURN(const Value* value, FindOne(key, fallback.has_value()));
  if (value == nullptr) return *fallback;
  FERMATA_ASSIGN_OR_RETURN(const std::vector<double> values, Numbers(key, low, high));
  return values.front();
}

absl::StatusOr<bool> GgufFile::Bool(std::string_view key, std::optional<bool> fallback) const {
  FERMATA_ASSIGN_OR_RETURN(const Value* value, FindOne(key, fallback.has_value()));
  if (value == nullptr) return *fallback;
  if (value->type != Type::kBool) return WrongType(key, *value, "a bool");
  return ElementAt<uint8_t>(value->bytes, 0) != 0;
}

absl::StatusOr<std::string> GgufFile::String(std::string_view key,
                                             std::optional<std::string> fallback) const {
  FERMATA_ASSIGN_OR_RETURN(const Value* value, FindOne(key, fallback.has_value()));
  if (value == nullptr) return *std::move(fallback);
  FERMATA_ASSIGN_OR_RETURN(const std::vector<std::string_view> values, Strings(key));
  return std::string(values.front());
}

absl::StatusOr<std::vector<int64_t>> GgufFile::Ints(std::string_view key, int64_t low,
                                                    int64_t high) const {
  std::vector<int64_t> result;
  const Value* value = Find(key);
  if (value == nullptr) return result;
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    FERMATA_ASSIGN_OR_RETURN(const int64_t integer, IntAt(key, *value, i));
    if (integer < low || integer > high) {
      return Error(key, absl::StrCat(integer, " is outside [", low, ", ", high, "]"));
    }
    result.push_back(integer);
  }
  return result;
}

absl::StatusOr<std::vector<double>> GgufFile::Numbers(std::string_view key, double low,
                                                      double high) const {
  std::vector<double> result;
  const Value* value = Find(key);
  if (value == nullptr) return result;
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    FERMATA_ASSIGN_OR_RETURN(const double number, NumberAt(key, *value, i));
    // Written so that NaN, too, is outside.
    if (!(number >= low && number <= high) || std::isinf(number)) {
      return Error(key, absl::StrCat(number, " is outside [", low, ", ", high, "]"));
    }
    result.push_back(number);
  }
  return result;
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  std::vector<std::string_view> result;
  const Value* value = Find(key);
  if (value == nullptr) return result;
  if (value->type != Type::kString) {
    // An array with no elements is one of strings as well as of anything else.
    return value->count == 0
               ? result
               : absl::StatusOr<std::vector<std::string_view>>(WrongType(key, *value, "strings"));
  }
  result.resize(value->count);
  ByteReader reader(value->bytes);
  for (std::string_view& text : result) {
    uint64_t length = 0;
    reader.Read(&length);
    reader.Read(length, &text);
  }
  return result;
}

}  // namespace fermata
