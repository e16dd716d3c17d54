#include "engine/sampling/stop_matcher.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

using Strings = std::vector<std::string>;

struct Outcome {
  std::string text;
  std::optional<std::string> matched;
  bool operator==(const Outcome&) const = default;
};

// By the definition, on the whole text: the match whose end comes first, the longest of those.
Outcome WholeText(const std::string& text, const Strings& stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    for (size_t begin = 0; begin < end; ++begin) {
      for (const std::string& candidate : stop) {
        if (text.substr(begin, end - begin) == candidate) return {text.substr(0, begin), candidate};
      }
    }
  }
  return {text, std::nullopt};
}

// Piece by piece. What has left must never be more than what leaves in the end, on any
// continuation: that is what "no part of a stop string leaks" means.
Outcome Streamed(const Strings& pieces, const Strings& stop) {
  StopMatcher matcher(stop);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const auto result = matcher.Append(piece);
    outcome.text += result.text;
    if (result.matched.has_value()) {
      outcome.matched = result.matched;
      EXPECT_EQ(matcher.Finish(), "");
      return outcome;
    }
  }
  outcome.text += matcher.Finish();
  return outcome;
}

// The characters of a UTF-8 text.
Strings Characters(const std::string& text) {
  Strings characters;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) characters.emplace_back();
    characters.back().push_back(c);
  }
  return characters;
}

TEST(StopMatcherTest, EverySplitGivesWhatTheWholeTextGives) {
  std::mt19937 random(3);
  const Strings letters = {"a", "b", "é", "è"};  // The last two share their first byte.
  const auto random_text = [&](size_t longest, size_t alphabet) {
    std::string text;
    for (size_t i = 1 + random() % longest; i > 0; --i) text += letters[random() % alphabet];
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 1500; ++round) {
    Strings stop;
    const size_t alphabet = 2 + random() % 3;
    for (size_t i = random() % 4; i > 0; --i) stop.push_back(random_text(4, alphabet));
    const std::string text = random_text(9, alphabet);
    const Outcome expected = WholeText(text, stop);
    matches += expected.matched.has_value() ? 1 : 0;
    const Strings characters = Characters(text);
    for (size_t cuts = 0; cuts < (1u << (characters.size() - 1)); ++cuts) {
      Strings pieces(1);
      for (size_t i = 0; i < characters.size(); ++i) {
        pieces.back() += characters[i];
        if ((cuts >> i & 1) != 0) pieces.emplace_back();
      }
      ASSERT_EQ(Streamed(pieces, stop), expected) << text << " " << cuts;
    }
  }
  EXPECT_GT(matches, 300);
}

TEST(StopMatcherTest, LeavesAtOnceWhatCanNotBecomeAStopString) {
  StopMatcher matcher({"\n\nUser:", "END"});
  EXPECT_EQ(matcher.Append("Hello").text, "Hello");
  EXPECT_EQ(matcher.Append(" E").text, " ");
  EXPECT_EQ(matcher.Append("N").text, "");
  EXPECT_EQ(matcher.Append("E").text, "EN");
  EXPECT_EQ(matcher.Append("x\n\nUse").text, "Ex");
  const auto result = matcher.Append("r: hi");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.matched, "\n\nUser:");
}

TEST(StopMatcherTest, TheMatchThatIsCompleteFirstWins) {
  EXPECT_EQ(Streamed({"xabcd"}, {"abcd", "bc"}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(Streamed({"xaab"}, {"ab", "b", "aab"}), (Outcome{"x", "aab"}));
  EXPECT_EQ(Streamed({"xab"}, {"ab", "b", "aab"}), (Outcome{"x", "ab"}));
  EXPECT_EQ(Streamed({"abab"}, {"ab", "abab"}), (Outcome{"", "ab"}));
}

TEST(StopMatcherTest, WhatIsAppendedUnarmedNeverMatches) {
  StopMatcher matcher({"ab"});
  EXPECT_EQ(matcher.Append("xab a", /*armed=*/false).text, "xab a");
  const auto result = matcher.Append("b a");
  EXPECT_EQ(result.text, "b ");
  EXPECT_FALSE(result.matched.has_value());
  EXPECT_EQ(matcher.Append("b").matched, "ab");
}

TEST(StopMatcherTest, FinishGivesWhatWasHeldBack) {
  StopMatcher matcher({"<end>"});
  EXPECT_EQ(matcher.Append("a<en").text, "a");
  EXPECT_EQ(matcher.Finish(), "<en");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_EQ(StopMatcher({}).Append("text").text, "text");
}

}  // namespace
}  // namespace fermata
