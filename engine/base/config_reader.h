#ifndef FERMATA_ENGINE_BASE_CONFIG_READER_H_
#define FERMATA_ENGINE_BASE_CONFIG_READER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace fermata {

// Reads a model's config.json field by field, and remembers which fields were asked for: what
// nobody read when the model is built is reported, so that a field that changes the mathematics can
// not be passed over in silence. Not thread-safe.
//
// A field that is absent or null takes the default. Every error is INVALID_ARGUMENT and names the
// file and the field.
class ConfigReader {
 public:
  struct Interval {
    double low = 0;
    double high = 0;
  };

  // `source` names the file in errors.
  ConfigReader(nlohmann::json object, std::string source);

  // Parses JSON text as Python's json module writes it: the numbers Infinity, -Infinity and NaN are
  // accepted (published configs hold them) and read as null, that is, as absent.
  static absl::StatusOr<ConfigReader> Parse(std::string_view text, std::string source);

  // An integer in [low, high].
  absl::StatusOr<int64_t> Int(std::string_view field, int64_t low, int64_t high,
                              std::optional<int64_t> fallback = std::nullopt);
  // A finite number in [low, high].
  absl::StatusOr<double> Number(std::string_view field, double low, double high,
                                std::optional<double> fallback = std::nullopt);
  absl::StatusOr<bool> Bool(std::string_view field, std::optional<bool> fallback = std::nullopt);
  absl::StatusOr<std::string> String(std::string_view field,
                                     std::optional<std::string> fallback = std::nullopt);
  // The place in `words` of the one that the field says; the first is the default.
  absl::StatusOr<size_t> Choice(std::string_view field,
                                std::initializer_list<std::string_view> words);
  // A list of finite numbers in [low, high]; empty when absent.
  absl::StatusOr<std::vector<double>> Numbers(std::string_view field, double low, double high);
  // A list of integers in [low, high], or one integer as a list of one; empty when absent.
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view field, int64_t low, int64_t high);
  // Two numbers [first, second] as an interval that is not empty. An end that is not finite, however
  // the file writes that, is an infinite one.
  absl::StatusOr<Interval> ReadInterval(std::string_view field, Interval fallback);
  // A nested object, or nullopt when absent or null. Counts as read; its own fields are its own.
  absl::StatusOr<std::optional<ConfigReader>> Object(std::string_view field);

  // Gives a field that is not there a value. One that is there, even as null, stays as it is.
  void SetDefault(std::string_view field, nlohmann::json value);
  // Whether the field is there and not null. Does not count as reading it.
  bool Has(std::string_view field) const;
  // Whether the field is there and null, for the few fields where that is not the same as absent.
  // Does not count as reading it.
  bool IsNull(std::string_view field) const;
  // Marks fields as known to have no effect on inference.
  void Ignore(std::initializer_list<std::string_view> fields);
  // The fields that nothing has read or ignored, in the file's order of names.
  std::vector<std::string> Unread() const;
  const std::string& source() const { return source_; }
  // The object as JSON text with its fields in the order of their names and no space between: the
  // same for any two files that say the same.
  std::string Canonical() const;

  // The error "<source>: <field>: <why>", for checks that involve more than one field.
  absl::Status Error(std::string_view field, std::string_view why) const;

 private:
  const nlohmann::json* Find(std::string_view field);

  nlohmann::json object_;
  std::string source_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_CONFIG_READER_H_
