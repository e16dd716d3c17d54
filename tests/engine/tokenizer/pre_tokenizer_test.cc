#include "engine/tokenizer/pre_tokenizer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Words Split(const nlohmann::json& json, const std::string& text) {
  const auto pre_tokenizer = PreTokenizer::Parse(JsonNode(json, "p"));
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  Words words;
  if (!pre_tokenizer.ok()) return words;
  pre_tokenizer->Split(text, StretchPlace(),
                       [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

nlohmann::json ThenBytes(const nlohmann::json& first) {
  const nlohmann::json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
}

Words SplitBy(const std::string& kind, const std::string& pattern, const std::string& behavior,
              const std::string& text, bool invert = false) {
  return Split(ThenBytes({{"type", "Split"},
                          {"pattern", {{kind, pattern}}},
                          {"behavior", behavior},
                          {"invert", invert}}),
               text);
}

// The example by which the `tokenizers` library documents the behaviours.
TEST(PreTokenizerTest, BehaviorsAsDocumented) {
  const std::string text = "the-final--countdown";
  for (const std::string kind : {"String", "Regex"}) {
    EXPECT_THAT(SplitBy(kind, "-", "Removed", text), ElementsAre("the", "final", "countdown"));
    EXPECT_THAT(SplitBy(kind, "-", "Isolated", text),
                ElementsAre("the", "-", "final", "-", "-", "countdown"));
    EXPECT_THAT(SplitBy(kind, "-", "MergedWithPrevious", text),
                ElementsAre("the-", "final-", "-", "countdown"));
    EXPECT_THAT(SplitBy(kind, "-", "MergedWithNext", text),
                ElementsAre("the", "-final", "-", "-countdown"));
    EXPECT_THAT(SplitBy(kind, "-", "Contiguous", text),
                ElementsAre("the", "-", "final", "--", "countdown"));
  }
  EXPECT_THAT(SplitBy("Regex", "[a-z]+", "Removed", text, true),
              ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(SplitBy("Regex", "x?", "Isolated", "axé"), ElementsAre("a", "x", "é"));
  EXPECT_THAT(SplitBy("String", ".", "Isolated", "a.b"), ElementsAre("a", ".", "b"));
}

TEST(PreTokenizerTest, DigitsAsDocumented) {
  EXPECT_THAT(Split(ThenBytes({{"type", "Digits"}, {"individual_digits", true}}), "Call 911!"),
              ElementsAre("Call ", "9", "1", "1", "!"));
  EXPECT_THAT(Split(ThenBytes({{"type", "Digits"}, {"individual_digits", false}}), "Call 911!"),
              ElementsAre("Call ", "911", "!"));
  EXPECT_THAT(Split(ThenBytes({{"type", "Digits"}, {"individual_digits", false}}), "x²٣y"),
              ElementsAre("x", "²٣", "y"));
}

// What the pattern of GPT-2 says, read off by hand.
TEST(PreTokenizerTest, ByteLevelPattern) {
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_THAT(
      Split(bytes, "Hello  world's 12x!?\n\n we'LL"),
      ElementsAre("Hello", " ", " world", "'s", " 12", "x", "!?", "\n\n", " we", "'", "LL"));
  EXPECT_THAT(Split(bytes, "a \t b  "), ElementsAre("a", " \t", " b", "  "));
  EXPECT_THAT(Split(bytes, "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD"),
              ElementsAre("na\xC3\xAFve", " \xE4\xBD\xA0\xE5\xA5\xBD"));
  // White_Space: NEL and the ideographic space are, the Mongolian vowel separator is not.
  EXPECT_THAT(Split(bytes, "!\xC2\x85!"), ElementsAre("!", "\xC2\x85", "!"));
  EXPECT_THAT(Split(bytes, "!\xE3\x80\x80!"), ElementsAre("!", "\xE3\x80\x80", "!"));
  EXPECT_THAT(Split(bytes, "!\xE1\xA0\x8E!"), ElementsAre("!\xE1\xA0\x8E!"));
  EXPECT_THAT(Split(bytes, std::string("a\0\0b", 4)),
              ElementsAre("a", std::string("\0\0", 2), "b"));
}

TEST(PreTokenizerTest, Llama3Pattern) {
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_THAT(SplitBy("Regex", pattern, "Isolated", "We'LL pay 1234567 (yes)!\n\n  now\n \n x"),
              ElementsAre("We", "'LL", " pay", " ", "123", "456", "7", " (", "yes", ")!\n\n", " ",
                          " now", "\n \n", " x"));
}

TEST(PreTokenizerTest, ByteLevelAddsItsSpaceToEachPiece) {
  const nlohmann::json json = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", "Removed"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  EXPECT_THAT(Split(json, "a- b-c"), ElementsAre(" a", " b", " c"));
}

TEST(RegexTest, OnigurumasClassesAreSpelledOut) {
  EXPECT_THAT(SplitBy("Regex", "\\w+", "Removed", "a_1é\xCC\x81-b", true),
              ElementsAre("a_1é\xCC\x81", "b"));
  EXPECT_THAT(SplitBy("Regex", "[\\w-]+", "Removed", "a-b c", true), ElementsAre("a-b", "c"));
  EXPECT_THAT(SplitBy("Regex", "\\W+", "Removed", "a -b"), ElementsAre("a", "b"));
  EXPECT_THAT(SplitBy("Regex", "[^\\s\\d]+", "Removed", "ab1 c", true), ElementsAre("ab", "c"));
  EXPECT_THAT(SplitBy("Regex", "a$", "Isolated", "aa\naa"), ElementsAre("a", "a", "\na", "a"));
  EXPECT_THAT(SplitBy("Regex", "[]x]", "Removed", "a]bxc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(SplitBy("Regex", "\\p{L}++(?=!)", "Removed", "ab! cd", true), ElementsAre("ab"));
}

TEST(RegexTest, WhatTheTwoReadDifferentlyIsRefused) {
  for (const std::string pattern : {"[a&&b]", "[a[b]]", "\\h", "\\bx", "a{2}+", "a{,3}", "(?m:a)",
                                    "[\\W]", "a\\", "(?P<n>a)", "(?s)a", "\\Ra"}) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr("not supported")) << pattern;
  }
  for (const std::string pattern : {"(", "[a", "a**{", "\\p{Nonsense}", "*"}) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
  EXPECT_FALSE(Regex::Literal("").ok());
}

TEST(RegexTest, LimitsEndTheMatchingNotTheProcess) {
  const Regex regex = Regex::Compile("(?:(a+)+)+b|c").value();
  int matches = 0;
  regex.ForEachMatch(std::string(5000, 'a') + "c", [&](size_t, size_t) { ++matches; });
  EXPECT_EQ(matches, 0);
  // Deep nesting without a match limit in reach.
  const Regex deep = Regex::Compile("(?:a|b)*c").value();
  size_t end = 0;
  deep.ForEachMatch(std::string(100'000, 'a') + "c", [&](size_t, size_t to) { end = to; });
  EXPECT_EQ(end, 100'001u);
}

}  // namespace
}  // namespace fermata
