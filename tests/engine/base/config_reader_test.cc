#include "engine/base/config_reader.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ConfigReader Reader(std::string_view text) {
  auto reader = ConfigReader::Parse(text, "config.json");
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

// `result` is INVALID_ARGUMENT that names the file and the field.
template <typename T>
void ExpectError(const absl::StatusOr<T>& result, std::string_view field) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("config.json"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(std::string(field)));
}

TEST(ConfigReaderTest, ReadsEveryType) {
  ConfigReader reader = Reader(R"({"int": 7, "float_int": 8.0, "number": 1e-5, "bool": true,
      "string": "elu", "numbers": [1, 2.5], "ints": [3, 4], "one": 5, "object": {"inner": 6}})");
  EXPECT_EQ(*reader.Int("int", 0, 10), 7);
  EXPECT_EQ(*reader.Int("float_int", 0, 10), 8);
  EXPECT_EQ(*reader.Number("number", 0, 1), 1e-5);
  EXPECT_EQ(*reader.Number("int", 0, 10), 7);
  EXPECT_EQ(*reader.Bool("bool"), true);
  EXPECT_EQ(*reader.String("string"), "elu");
  EXPECT_THAT(*reader.Numbers("numbers", 0, 3), ElementsAre(1, 2.5));
  EXPECT_THAT(*reader.Ints("ints", 0, 9), ElementsAre(3, 4));
  EXPECT_THAT(*reader.Ints("one", 0, 9), ElementsAre(5));
  auto object = reader.Object("object");
  ASSERT_TRUE(object.ok() && object->has_value());
  EXPECT_EQ(*(*object)->Int("inner", 0, 9), 6);
  EXPECT_THAT(reader.Unread(), IsEmpty());
}

TEST(ConfigReaderTest, AbsentAndNullTakeTheDefault) {
  ConfigReader reader = Reader(R"({"null": null})");
  for (const std::string field : {"null", "absent"}) {
    EXPECT_EQ(*reader.Int(field, 0, 10, 3), 3);
    EXPECT_EQ(*reader.Number(field, 0, 1, 0.5), 0.5);
    EXPECT_EQ(*reader.Bool(field, false), false);
    EXPECT_EQ(*reader.String(field, "x"), "x");
    EXPECT_THAT(*reader.Numbers(field, 0, 1), IsEmpty());
    EXPECT_THAT(*reader.Ints(field, 0, 1), IsEmpty());
    EXPECT_FALSE(reader.Object(field)->has_value());
    EXPECT_FALSE(reader.Has(field));
    ExpectError(reader.Int(field, 0, 10), field);
    ExpectError(reader.Number(field, 0, 1), field);
    ExpectError(reader.Bool(field), field);
    ExpectError(reader.String(field), field);
  }
}

TEST(ConfigReaderTest, WrongTypesAreErrors) {
  ConfigReader reader = Reader(R"({"int": 7, "fraction": 1.5, "string": "7", "bool": true,
      "list": [1, "2"], "object": {}})");
  for (const std::string field : {"fraction", "string", "bool", "list", "object"}) {
    ExpectError(reader.Int(field, 0, 10), field);
  }
  for (const std::string field : {"string", "bool", "list", "object"}) {
    ExpectError(reader.Number(field, 0, 10), field);
    ExpectError(reader.Numbers(field, 0, 10), field);
    ExpectError(reader.Ints(field, 0, 10), field);
  }
  for (const std::string field : {"int", "string", "list"}) {
    ExpectError(reader.Bool(field), field);
    ExpectError(reader.Object(field), field);
  }
  for (const std::string field : {"int", "bool", "list", "object"}) {
    ExpectError(reader.String(field), field);
  }
}

TEST(ConfigReaderTest, RangesAreClosed) {
  ConfigReader reader = Reader(R"({"i": 5, "n": 0.5, "list": [1, 9], "huge": 1e300,
      "unsigned": 18446744073709551615, "negative": -9223372036854775808})");
  EXPECT_TRUE(reader.Int("i", 5, 5).ok());
  ExpectError(reader.Int("i", 6, 10), "i");
  ExpectError(reader.Int("i", 0, 4), "i");
  EXPECT_TRUE(reader.Number("n", 0.5, 0.5).ok());
  ExpectError(reader.Number("n", 0.6, 1), "n");
  ExpectError(reader.Number("n", 0, 0.4), "n");
  ExpectError(reader.Numbers("list", 0, 8), "list");
  ExpectError(reader.Ints("list", 2, 9), "list");
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  ExpectError(reader.Int("huge", kLow, kHigh), "huge");
  ExpectError(reader.Int("unsigned", kLow, kHigh), "unsigned");
  EXPECT_EQ(*reader.Int("negative", kLow, kHigh), kLow);
}

TEST(ConfigReaderTest, NonFiniteNumbersReadAsAbsent) {
  ConfigReader reader = Reader(R"({"limit": [0.0, Infinity], "low": -Infinity, "nan": NaN,
      "name": "Infinity and \"NaN\"", "NaN": 3})");
  EXPECT_EQ(*reader.Number("low", 0, 1, 0.25), 0.25);
  EXPECT_FALSE(reader.Has("nan"));
  EXPECT_EQ(*reader.String("name"), "Infinity and \"NaN\"");
  EXPECT_EQ(*reader.Int("NaN", 0, 5), 3);
  ExpectError(reader.Numbers("limit", 0, 1), "limit");
}

TEST(ConfigReaderTest, UnreadFieldsAreReported) {
  ConfigReader reader = Reader(R"({"c": 1, "a": 2, "b": 3, "d": null, "e": {"f": 1}})");
  EXPECT_THAT(reader.Unread(), ElementsAre("a", "b", "c", "e"));
  (void)reader.Int("a", 0, 9);
  reader.Ignore({"c", "not there"});
  EXPECT_TRUE(reader.Has("b"));
  EXPECT_THAT(reader.Unread(), ElementsAre("b", "e"));
  auto inner = *reader.Object("e");
  EXPECT_THAT(reader.Unread(), ElementsAre("b"));
  EXPECT_THAT(inner->Unread(), ElementsAre("f"));
}

TEST(ConfigReaderTest, ErrorsInNestedObjectsNameThePath) {
  ConfigReader reader = Reader(R"({"options": {"seed": "x"}})");
  auto options = *reader.Object("options");
  EXPECT_EQ(std::string(options->Int("seed", 0, 1).status().message()),
            "config.json: options: seed: not an integer: \"x\"");
}

TEST(ConfigReaderTest, BadTextIsAnError) {
  for (const std::string_view text :
       {"", "{", "[1]", "3", "null", "{\"a\": }", "{\"a\": 1} x", "{\"a\": Infinit}", "\xff"}) {
    const auto reader = ConfigReader::Parse(text, "config.json");
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(reader.status().message()), HasSubstr("config.json"));
  }
}

TEST(ConfigReaderTest, AnIntervalMayHaveInfiniteEndsInAnySpelling) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ConfigReader reader = Reader(R"({"finite": [0.5, 2], "python": [-Infinity, Infinity],
      "transformers": [0, {"__float__": "Infinity"}], "point": [1, 1], "empty": [2, 1],
      "long": [1, 2, 3], "text": ["a", "b"], "number": 1})");
  const struct {
    std::string field;
    double low, high;
  } cases[] = {{"finite", 0.5, 2},
               {"python", -kInfinity, kInfinity},
               {"transformers", 0, kInfinity},
               {"point", 1, 1},
               {"absent", 3, 4}};
  for (const auto& each : cases) {
    const auto interval = reader.ReadInterval(each.field, {3, 4});
    ASSERT_TRUE(interval.ok()) << interval.status();
    EXPECT_EQ(interval->low, each.low) << each.field;
    EXPECT_EQ(interval->high, each.high) << each.field;
  }
  for (const std::string field : {"empty", "long", "text", "number"}) {
    ExpectError(reader.ReadInterval(field, {3, 4}), field);
  }
  EXPECT_THAT(reader.Unread(), IsEmpty());
}

TEST(ConfigReaderTest, AChoiceIsOneOfTheWordsAndTheFirstByDefault) {
  ConfigReader reader = Reader(R"({"second": "sum", "other": "max", "number": 1})");
  EXPECT_EQ(*reader.Choice("second", {"l2", "sum"}), 1u);
  EXPECT_EQ(*reader.Choice("absent", {"l2", "sum"}), 0u);
  const auto other = reader.Choice("other", {"l2", "sum"});
  ExpectError(other, "other");
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("known are l2, sum"));
  ExpectError(reader.Choice("number", {"l2", "sum"}), "number");
}

TEST(ConfigReaderTest, ADefaultIsForFieldsThatAreNotThere) {
  ConfigReader reader = Reader(R"({"there": 1, "null": null})");
  for (const char* field : {"there", "null", "absent"}) reader.SetDefault(field, 2);
  EXPECT_EQ(*reader.Int("there", 0, 9, 3), 1);
  EXPECT_EQ(*reader.Int("null", 0, 9, 3), 3);
  EXPECT_EQ(*reader.Int("absent", 0, 9, 3), 2);
}

}  // namespace
}  // namespace fermata
