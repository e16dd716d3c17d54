#include "engine/tokenizer/added_tokens.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/test_vocab.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

// The pieces of `text`, added tokens in brackets.
std::vector<std::string> Pieces(const nlohmann::json& tokens, const std::string& text,
                                bool parse_special = true, bool normalized = false) {
  const auto parsed = AddedTokens::Parse(JsonNode(tokens, "t"));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const AddedTokens added(*parsed, Normalizer());
  std::vector<std::string> pieces;
  added.Split(
      text, normalized, parse_special, [&](std::string_view piece, const AddedToken* token) {
        pieces.push_back(token == nullptr ? std::string(piece) : "[" + std::string(piece) + "]");
      });
  return pieces;
}

nlohmann::json Flagged(const std::string& content, const std::string& flag) {
  auto token = TestAddedToken(1, content);
  token[flag] = true;
  return nlohmann::json::array({token});
}

TEST(AddedTokensTest, TheLeftmostWinsThenTheLongest) {
  const nlohmann::json tokens = {TestAddedToken(1, "ab"), TestAddedToken(2, "abc"),
                                 TestAddedToken(3, "bcd"), TestAddedToken(4, "abcde")};
  EXPECT_THAT(Pieces(tokens, "xabcdx"), ElementsAre("x", "[abc]", "dx"));
  EXPECT_THAT(Pieces(tokens, "abdabcde"), ElementsAre("[ab]", "d", "[abcde]"));
  EXPECT_THAT(Pieces(tokens, "bcdab"), ElementsAre("[bcd]", "[ab]"));
  EXPECT_THAT(Pieces(tokens, ""), ElementsAre());
  EXPECT_THAT(Pieces(tokens,
                     "\xFF"
                     "ab\xFF"),
              ElementsAre("\xFF", "[ab]", "\xFF"));
}

TEST(AddedTokensTest, SpecialOnesCountOnlyWhenParsed) {
  nlohmann::json tokens = {TestAddedToken(1, "<s>"), TestAddedToken(2, "<s"),
                           TestAddedToken(3, "s>")};
  tokens[0]["special"] = true;
  EXPECT_THAT(Pieces(tokens, "a<s>", true), ElementsAre("a", "[<s>]"));
  EXPECT_THAT(Pieces(tokens, "a<s>", false), ElementsAre("a", "[<s]", ">"));
}

TEST(AddedTokensTest, SingleWordStandsAlone) {
  const auto tokens = Flagged("ab", "single_word");
  EXPECT_THAT(Pieces(tokens, "ab ab. xab abx"), ElementsAre("[ab]", " ", "[ab]", ". xab abx"));
  EXPECT_THAT(Pieces(tokens, "éab"), ElementsAre("éab"));
  EXPECT_THAT(Pieces(tokens, "ab_"), ElementsAre("ab_"));
  EXPECT_THAT(Pieces(tokens, "ab\xCC\x81"), ElementsAre("ab\xCC\x81"));  // A mark.
  EXPECT_THAT(Pieces(tokens, "€ab€"), ElementsAre("€", "[ab]", "€"));
  EXPECT_THAT(Pieces(tokens,
                     "\xC3"
                     "ab\xA9"),
              ElementsAre("\xC3", "[ab]", "\xA9"));
}

TEST(AddedTokensTest, StripsTakeWhiteSpaceAlong) {
  EXPECT_THAT(Pieces(Flagged("<m>", "lstrip"), "a \n\xC2\xA0<m> b"),
              ElementsAre("a", "[ \n\xC2\xA0<m>]", " b"));
  EXPECT_THAT(Pieces(Flagged("<m>", "rstrip"), "a <m>\xE3\x80\x80 b"),
              ElementsAre("a ", "[<m>\xE3\x80\x80 ]", "b"));
  EXPECT_THAT(Pieces(Flagged("<m>", "lstrip"), "<m> <m>"), ElementsAre("[<m>]", "[ <m>]"));
  EXPECT_THAT(Pieces(Flagged("<m>", "rstrip"), " <m> <m> "), ElementsAre(" ", "[<m> ]", "[<m> ]"));
}

TEST(AddedTokensTest, NormalizedOnesAreSoughtInTheNormalizedText) {
  auto json = TestTokenizerJson();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = {TestAddedToken(300, "e\xCC\x81"), TestAddedToken(301, "a\xCC\x81")};
  json["added_tokens"][0]["normalized"] = true;
  const auto tokenizer = MustParse(json);
  EXPECT_THAT(tokenizer->Encode("\xC3\xA9", true), ElementsAre(300));   // Composed,
  EXPECT_THAT(tokenizer->Encode("e\xCC\x81", true), ElementsAre(300));  // or not.
  EXPECT_THAT(tokenizer->Encode("\xC3\xA1", true), ElementsAre(0xC3, 0xA1));
  EXPECT_THAT(tokenizer->Encode("a\xCC\x81", true), ElementsAre(301));
}

TEST(AddedTokensTest, WhatStandsTwiceIsRefused) {
  const nlohmann::json ids = {TestAddedToken(1, "a"), TestAddedToken(1, "b")};
  EXPECT_EQ(AddedTokens::Parse(JsonNode(ids, "t")).status().message(), "t: [1].id: stands twice");
  const nlohmann::json contents = {TestAddedToken(1, "a"), TestAddedToken(2, "a")};
  EXPECT_EQ(AddedTokens::Parse(JsonNode(contents, "t")).status().message(),
            "t: [1].content: stands twice");
}

}  // namespace
}  // namespace fermata
