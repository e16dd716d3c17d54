#include "engine/base/config_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

// Python's json module writes non-finite numbers as bare words, which JSON does not have. Outside
// strings they can stand only where a value stands, so replacing the words is enough.
std::string WithoutNonFinite(std::string_view text) {
  static constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out.append(text.substr(i++, 2));
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (!in_string) {
      bool replaced = false;
      for (const std::string_view word : kWords) {
        if (text.substr(i, word.size()) != word) continue;
        out += "null";
        i += word.size() - 1;
        replaced = true;
        break;
      }
      if (replaced) continue;
    }
    out += c;
  }
  return out;
}

}  // namespace

ConfigReader::ConfigReader(nlohmann::json object, std::string source)
    : object_(std::move(object)), source_(std::move(source)) {}

absl::StatusOr<ConfigReader> ConfigReader::Parse(std::string_view text, std::string source) {
  FERMATA_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(WithoutNonFinite(text), source));
  if (!json.is_object()) return absl::InvalidArgumentError(source + ": not a JSON object");
  return ConfigReader(std::move(json), std::move(source));
}

const nlohmann::json* ConfigReader::Find(std::string_view field) {
  read_.emplace(field);
  const auto it = object_.find(std::string(field));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigReader::Has(std::string_view field) const {
  const auto it = object_.find(std::string(field));
  return it != object_.end() && !it->is_null();
}

bool ConfigReader::IsNull(std::string_view field) const {
  const auto it = object_.find(std::string(field));
  return it != object_.end() && it->is_null();
}

absl::Status ConfigReader::Error(std::string_view field, std::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(source_, ": ", View(field), ": ", View(why)));
}

absl::StatusOr<int64_t> ConfigReader::Int(std::string_view field, int64_t low, int64_t high,
                                          std::optional<int64_t> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Error(field, "missing");
  }
  // A float with an integral value is what some writers make of an integer.
  const bool integral =
      value->is_number_integer() ||
      (value->is_number_float() && value->get<double>() == std::floor(value->get<double>()));
  if (!integral) return Error(field, absl::StrCat("not an integer: ", value->dump()));
  if (value->is_number_float() || value->is_number_unsigned()) {
    const double as_double = value->get<double>();
    if (as_double < static_cast<double>(low) || as_double > static_cast<double>(high)) {
      return Error(field, absl::StrCat(value->dump(), " is outside [", low, ", ", high, "]"));
    }
  }
  const int64_t result = value->get<int64_t>();
  if (result < low || result > high) {
    return Error(field, absl::StrCat(result, " is outside [", low, ", ", high, "]"));
  }
  return result;
}

absl::StatusOr<double> ConfigReader::Number(std::string_view field, double low, double high,
                                            std::optional<double> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Error(field, "missing");
  }
  if (!value->is_number()) return Error(field, absl::StrCat("not a number: ", value->dump()));
  const double result = value->get<double>();
  if (!(result >= low && result <= high)) {
    return Error(field, absl::StrCat(result, " is outside [", low, ", ", high, "]"));
  }
  return result;
}

absl::StatusOr<bool> ConfigReader::Bool(std::string_view field, std::optional<bool> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Error(field, "missing");
  }
  if (!value->is_boolean()) return Error(field, absl::StrCat("not a boolean: ", value->dump()));
  return value->get<bool>();
}

absl::StatusOr<std::string> ConfigReader::String(std::string_view field,
                                                 std::optional<std::string> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (fallback.has_value()) return *std::move(fallback);
    return Error(field, "missing");
  }
  if (!value->is_string()) return Error(field, absl::StrCat("not a string: ", value->dump()));
  return value->get<std::string>();
}

absl::StatusOr<size_t> ConfigReader::Choice(std::string_view field,
                                            std::initializer_list<std::string_view> words) {
  FERMATA_ASSIGN_OR_RETURN(const std::string word, String(field, std::string(*words.begin())));
  std::string known;
  for (const std::string_view& each : words) {
    if (each == word) return &each - words.begin();
    absl::StrAppend(&known, known.empty() ? "" : ", ", View(each));
  }
  return Error(field, Quoted(word) + " is not known; known are " + known);
}

absl::StatusOr<std::vector<double>> ConfigReader::Numbers(std::string_view field, double low,
                                                          double high) {
  std::vector<double> result;
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return result;
  if (!value->is_array()) return Error(field, absl::StrCat("not a list: ", value->dump()));
  for (const nlohmann::json& element : *value) {
    if (!element.is_number()) return Error(field, absl::StrCat("not a number: ", element.dump()));
    const double number = element.get<double>();
    if (!(number >= low && number <= high)) {
      return Error(field, absl::StrCat(number, " is outside [", low, ", ", high, "]"));
    }
    result.push_back(number);
  }
  return result;
}

absl::StatusOr<std::vector<int64_t>> ConfigReader::Ints(std::string_view field, int64_t low,
                                                        int64_t high) {
  std::vector<int64_t> result;
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return result;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& element : list) {
    ConfigReader one({{std::string(field), element}}, source_);
    FERMATA_ASSIGN_OR_RETURN(const int64_t number, one.Int(field, low, high));
    result.push_back(number);
  }
  return result;
}

absl::StatusOr<ConfigReader::Interval> ConfigReader::ReadInterval(std::string_view field,
                                                                  Interval fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return fallback;
  const absl::Status wrong = Error(field, absl::StrCat("not an interval: ", value->dump()));
  if (!value->is_array() || value->size() != 2) return wrong;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double ends[] = {-kInfinity, kInfinity};
  for (size_t i = 0; i < 2; ++i) {
    const nlohmann::json& end = (*value)[i];
    // Null is what Parse makes of Infinity; the object is transformers 5's way to write it.
    if (end.is_null() || (end.is_object() && end.contains("__float__"))) continue;
    if (!end.is_number()) return wrong;
    ends[i] = end.get<double>();
  }
  if (!(ends[0] <= ends[1])) return wrong;
  return Interval{ends[0], ends[1]};
}

absl::StatusOr<std::optional<ConfigReader>> ConfigReader::Object(std::string_view field) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return Error(field, absl::StrCat("not an object: ", value->dump()));
  return ConfigReader(*value, absl::StrCat(source_, ": ", View(field)));
}

void ConfigReader::SetDefault(std::string_view field, nlohmann::json value) {
  object_.emplace(std::string(field), std::move(value));
}

void ConfigReader::Ignore(std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) read_.emplace(field);
}

std::string ConfigReader::Canonical() const {
  return object_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> ConfigReader::Unread() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : object_.items()) {
    if (!value.is_null() && !read_.contains(name)) result.push_back(name);
  }
  return result;
}

}  // namespace fermata
