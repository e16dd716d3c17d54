#include "engine/tokenizer/python_literal.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

// What Python's ast.literal_eval gives, a string as UTF-8.
TEST(PythonLiteralTest, AsPythonReadsThem) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"('')", ""},
      {R"(b"")", ""},
      {R"('a b')", "a b"},
      {R"("it's")", "it's"},
      {R"('say "x"')", "say \"x\""},
      {R"('it\'s \"q\"')", "it's \"q\""},
      {R"('\\')", "\\"},
      {R"('\\\'')", "\\'"},
      {R"('\n\r\t\a\b\f\v')", "\n\r\t\a\b\f\v"},
      {R"('\x00')", std::string(1, '\0')},
      {R"('\xe9')", "\xC3\xA9"},
      {R"(b'\xe9')", "\xE9"},
      {R"(b'\xE9x')", "\xE9x"},
      {R"('\u2028')", "\xE2\x80\xA8"},
      {R"('\U0001f600')", "\xF0\x9F\x98\x80"},
      {"'\xE4\xBD\xA0'", "\xE4\xBD\xA0"},
  };
  for (const auto& [literal, bytes] : cases) {
    const auto parsed = ParsePythonLiteral(literal);
    ASSERT_TRUE(parsed.ok()) << literal << parsed.status();
    EXPECT_EQ(*parsed, bytes) << literal;
  }
}

TEST(PythonLiteralTest, OthersAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is not a string or bytes literal"},
      {"b", "is not a string or bytes literal"},
      {"'", "is not a string or bytes literal"},
      {"a", "is not a string or bytes literal"},
      {"'a", "is not a string or bytes literal"},
      {"'a\"", "is not a string or bytes literal"},
      {"r'a'", "is not a string or bytes literal"},
      {"'a' ", "is not a string or bytes literal"},
      {"'a'+'b'", "is not one string or bytes literal"},
      {"''''", "is not one string or bytes literal"},
      {R"('\')", "is not one string or bytes literal"},
      {R"('\q')", "has the escape"},
      {R"('\0')", "has the escape"},
      {R"('\x1')", "has the escape"},
      {R"('\xg0')", "has the escape"},
      {R"('\x+1')", "has the escape"},
      {R"('\u12')", "has the escape"},
      {R"(b'\u1234')", "has the escape"},
      {R"('\ud800')", "has the escape"},
      {R"('\U00110000')", "has the escape"},
      {R"('\N{DASH}')", "has the escape"},
      {"b'\xE4\xBD\xA0'", "not ASCII"},
      {"'\xFF'", "not UTF-8"},
  };
  for (const auto& [literal, error] : cases) {
    const auto parsed = ParsePythonLiteral(literal);
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << literal;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(error)) << literal;
  }
}

}  // namespace
}  // namespace fermata
