#include "engine/base/utf8.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "utf8proc.h"

namespace fermata {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

std::string Replaced(std::string bytes) {
  std::string text;
  DrainUtf8(bytes, text);
  return bytes.empty() ? text : text + kFffd;
}

// The examples of the Unicode standard, version 15, tables 3-8 to 3-11.
TEST(Utf8Test, ReplacesMaximalSubpartsAsTheStandardShows) {
  const auto expand = [](std::string shown) {
    std::string text;
    for (const char c : shown) text += c == '?' ? kFffd : std::string(1, c);
    return text;
  };
  EXPECT_EQ(Replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), expand("????????A"));
  EXPECT_EQ(Replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), expand("????????A"));
  EXPECT_EQ(Replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), expand("?????A??B"));
  EXPECT_EQ(Replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), expand("????A"));
}

// utf8proc is the judge of what is a character.
TEST(Utf8Test, EveryCodePointAndNothingElseIsValid) {
  for (int32_t code_point = 0; code_point <= 0x110000; ++code_point) {
    std::string encoded;
    AppendUtf8(static_cast<char32_t>(code_point), encoded);
    int32_t judged = -1;
    const auto length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(encoded.data()),
                                         static_cast<long>(encoded.size()), &judged);
    const bool valid = length == static_cast<long>(encoded.size()) && judged == code_point;
    ASSERT_EQ(valid, code_point < 0xD800 || (code_point > 0xDFFF && code_point < 0x110000));
    ASSERT_EQ(FirstUtf8Unit(encoded).valid, valid) << code_point;
    if (!valid) continue;
    ASSERT_EQ(FirstUtf8Unit(encoded + "\x80").length, encoded.size());
    ASSERT_EQ(CodePoints(encoded), std::u32string(1, static_cast<char32_t>(code_point)));
    for (size_t part = 1; part < encoded.size(); ++part) {
      const Utf8Unit unit = FirstUtf8Unit(std::string_view(encoded).substr(0, part));
      ASSERT_TRUE(unit.open && !unit.valid && unit.length == part) << code_point;
    }
  }
}

TEST(Utf8Test, AgreesWithUtf8procOnRandomBytes) {
  std::mt19937 random(1);
  // Bytes near the borders of table 3-7, so that characters and near misses both come often.
  const std::string bytes =
      "A\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEE\xF0\xF1\xF4\xF5\xFF";
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    for (int i = 0; i < 6; ++i) text.push_back(bytes[random() % bytes.size()]);
    size_t valid = 0;
    while (valid < text.size()) {
      int32_t code_point;
      const auto length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()) + valid,
                                           static_cast<long>(text.size() - valid), &code_point);
      if (length <= 0) break;
      valid += static_cast<size_t>(length);
    }
    ASSERT_EQ(ValidUtf8Length(text), valid);
    const std::string replaced = Replaced(text);
    ASSERT_EQ(ValidUtf8Length(replaced), replaced.size());
  }
}

TEST(Utf8Test, DrainKeepsOnlyWhatMayBecomeACharacter) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"a\xF0", "\xF0"},
      {"a\xF0\x9F\x98", "\xF0\x9F\x98"},
      {"\xF0\x80", ""},
      {"\xED\xA0", ""},
      {"\xE2\x82", "\xE2\x82"},
      {"\xE2\x82\xAC", ""},
      {"\xE2\x82\xE2", "\xE2"},
      {"\x80", ""},
      {"", ""},
  };
  for (const auto& [bytes, kept] : kCases) {
    std::string left = bytes;
    std::string text;
    DrainUtf8(left, text);
    EXPECT_EQ(left, kept);
  }
}

}  // namespace
}  // namespace fermata
