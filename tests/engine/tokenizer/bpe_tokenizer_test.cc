#include "engine/tokenizer/bpe_tokenizer.h"

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/test_vocab.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Without pre-tokenisation: a text is one word.
nlohmann::json OneWordJson(const Pairs& merges) {
  auto json = TestTokenizerJson(merges);
  json["pre_tokenizer"]["use_regex"] = false;
  return json;
}

// The algorithm as it is defined: merge the first pair of the lowest rank, until there is none.
std::vector<std::string> NaiveBpe(const std::string& word, const Pairs& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best_rank = merges.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first == parts[i] && merges[rank].second == parts[i + 1]) {
          best_rank = rank;
          best_at = i;
        }
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<long>(best_at) + 1);
  }
}

// Merges of random pairs of what there is already.
Pairs RandomMerges(std::mt19937& random, const std::string& letters, size_t count) {
  std::vector<std::string> tokens;
  for (const char c : letters) tokens.emplace_back(1, c);
  Pairs merges;
  while (merges.size() < count) {
    const std::pair<std::string, std::string> pair = {tokens[random() % tokens.size()],
                                                      tokens[random() % tokens.size()]};
    if (std::find(merges.begin(), merges.end(), pair) != merges.end()) continue;
    if (pair.first.size() + pair.second.size() > 12) continue;
    merges.push_back(pair);
    tokens.push_back(pair.first + pair.second);
  }
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

TEST(BpeTest, MergesAsDefinedOnRandomTables) {
  std::mt19937 random(11);
  for (int table = 0; table < 60; ++table) {
    const std::string letters = table % 2 == 0 ? "ab" : "ab \xE2\x82\xAC";
    const Pairs merges = RandomMerges(random, letters, 5 + table % 20);
    const auto tokenizer = MustParse(OneWordJson(merges));
    for (int round = 0; round < 60; ++round) {
      std::string word;
      const size_t size = 1 + random() % 40;
      // Cut into bytes that are no characters, a text is several words.
      while (word.size() < size) {
        const char c = letters[random() % letters.size()];
        word += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "\xE2\x82\xAC";
      }
      std::vector<std::string> parts;
      for (const int32_t id : tokenizer->Encode(word, false)) {
        parts.emplace_back(tokenizer->TokenBytes(id));
      }
      ASSERT_EQ(parts, NaiveBpe(word, merges)) << word;
    }
  }
}

TEST(BpeTest, LongWordsAreEncodedWhole) {
  const auto tokenizer = MustParse(OneWordJson({{"a", "a"}, {"aa", "aa"}}));
  const auto ids = tokenizer->Encode(std::string(1'000'003, 'a'), false);
  ASSERT_EQ(ids.size(), 250'002u);
  EXPECT_EQ(ids.front(), 257);
  EXPECT_EQ(ids[250'000], 256);
  EXPECT_EQ(ids.back(), 'a');
}

TEST(BpeTest, BothPublishedFormsOfMerges) {
  auto json = OneWordJson({{"a", " "}, {"a ", "b"}});
  const auto lists = MustParse(json);
  json["model"]["merges"] = {"a \xC4\xA0", "a\xC4\xA0 b"};
  const auto strings = MustParse(json);
  EXPECT_THAT(lists->Encode("a ba ", false), ElementsAre(257, 256));
  EXPECT_THAT(strings->Encode("a ba ", false), ElementsAre(257, 256));
}

TEST(BpeTest, IgnoreMergesTakesWholeTokensFirst) {
  auto json = OneWordJson({{"a", "b"}, {"b", "c"}, {"a", "bc"}});
  // "ab" is merged first, so that merges alone never give "abc".
  EXPECT_THAT(MustParse(json)->Encode("abc", false), ElementsAre(256, 'c'));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(MustParse(json)->Encode("abc", false), ElementsAre(258));
  // But never a special one.
  json["model"]["vocab"]["<s>"] = 259;
  json["added_tokens"] = {TestAddedToken(259, "<s>")};
  json["added_tokens"][0]["special"] = true;
  const auto tokenizer = MustParse(json);
  EXPECT_THAT(tokenizer->Encode("<s>", false), ElementsAre('<', 's', '>'));
  EXPECT_THAT(tokenizer->Encode("<s>", true), ElementsAre(259));
}

TEST(BpeTokenizerTest, AnyBytesRoundTrip) {
  std::mt19937 random(5);
  auto json = TestTokenizerJson(
      {{"e", "r"}, {"\xE2", "\x82"}, {" ", "\xE2\x82"}, {"\x80", "\xFF"}, {"\xE2\x82", "\xAC"}});
  json["added_tokens"] = {TestAddedToken(300, "\xE2\x82\xACr"), TestAddedToken(301, "er\n")};
  const auto tokenizer = MustParse(json);
  const std::string often = "er \n'1\xE2\x82\xAC\x80\xFF\xF0\x9F";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t i = random() % 24; i > 0; --i) {
      text.push_back(random() % 8 == 0 ? static_cast<char>(random())
                                       : often[random() % often.size()]);
    }
    std::string joined;
    for (const int32_t id : tokenizer->Encode(text, true)) joined += tokenizer->TokenBytes(id);
    ASSERT_EQ(joined, text);
  }
}

TEST(BpeTokenizerTest, BytesThatAreNotUtf8AreWordsByThemselves) {
  auto json = TestTokenizerJson({{"\xE2", "\x82"}, {"a", "\xE2\x82"}, {"\xE2\x82", " "}});
  json["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = MustParse(json);
  // The run merges inside, and with nothing around it.
  EXPECT_THAT(tokenizer->Encode("a\xE2\x82 ", false), ElementsAre('a', 256, ' '));
  // What is around it is normalised: e and the acute accent become one character of two bytes.
  EXPECT_THAT(tokenizer->Encode("e\xCC\x81\xFF", false), ElementsAre(0xC3, 0xA9, 0xFF));
  EXPECT_THAT(tokenizer->Encode("e\xFF\xCC\x81", false), ElementsAre('e', 0xFF, 0xCC, 0x81));
}

TEST(BpeTokenizerTest, BytesWithoutTokensBecomeReplacementCharacters) {
  auto json = TestTokenizerJson();
  for (const int byte : {0xC0, 0xC1, 0xF5, 0xFF}) {
    json["model"]["vocab"].erase(Spell(std::string(1, static_cast<char>(byte))));
  }
  const auto tokenizer = MustParse(json);
  EXPECT_THAT(tokenizer->Encode("a\xFF\x80\xC0", false),
              ElementsAre('a', 0xEF, 0xBF, 0xBD, 0x80, 0xEF, 0xBF, 0xBD));
  json["model"]["vocab"].erase("a");
  EXPECT_THAT(std::string(BpeTokenizer::Parse(json.dump(), "f").status().message()),
              HasSubstr("f: model.vocab: has no token for the byte 97"));
}

TEST(BpeTokenizerTest, PrefixSpaceGoesBeforeWhatHasNone) {
  auto json = TestTokenizerJson({{" ", "a"}});
  json["pre_tokenizer"]["add_prefix_space"] = true;
  json["added_tokens"] = {TestAddedToken(300, "<x>")};
  const auto tokenizer = MustParse(json);
  EXPECT_THAT(tokenizer->Encode("a", false), ElementsAre(256));
  EXPECT_THAT(tokenizer->Encode(" a", false), ElementsAre(256));
  EXPECT_THAT(tokenizer->Encode("", false), ElementsAre());
  EXPECT_THAT(tokenizer->Encode("<x>a", false), ElementsAre(300, 256));
}

TEST(BpeTokenizerTest, ThreadsShareOneTokenizer) {
  const auto tokenizer = MustParse(TestTokenizerJson({{"a", "b"}, {"ab", "ab"}, {" ", "ab"}}));
  const std::string text = "ab abab aab abababab bab";
  const auto expected = tokenizer->Encode(text, false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        EXPECT_EQ(tokenizer->Encode(text, false), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(BpeTokenizerTest, TokensOutsideTheAlphabetAndHolesInTheIds) {
  auto json = TestTokenizerJson();
  json["model"]["vocab"]["<\xEF\xBD\x9C>"] = 270;  // U+FF5C is no byte's character.
  const auto tokenizer = MustParse(json);
  EXPECT_EQ(tokenizer->vocab_size(), 271);
  EXPECT_EQ(tokenizer->TokenBytes(270), "<\xEF\xBD\x9C>");
  EXPECT_EQ(tokenizer->TokenBytes(260), "");
  EXPECT_EQ(tokenizer->TokenBytes(271), "");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1) || tokenizer->IsSpecial(1000));
}

struct Refusal {
  std::string pointer;  // What of a good file is replaced (or added),
  nlohmann::json value;
  std::string error;  // and what the error then says.
};

TEST(BpeTokenizerTest, WhatIsNotSupportedIsRefusedByItsPath) {
  using json = nlohmann::json;
  const json special = {{"id", 256},           {"content", "ab"}, {"special", true},
                        {"lstrip", false},     {"rstrip", false}, {"normalized", false},
                        {"single_word", false}};
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "(a"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const std::vector<Refusal> refusals = {
      {"/truncation", {{"max_length", 5}}, "f: truncation: must be null"},
      {"/padding", {{"strategy", "x"}}, "f: padding: must be null"},
      {"/surprise", 1, "f: has the field \"surprise\""},
      {"/normalizer", {{"type", "Lowercase"}}, "f: normalizer: the normalizer \"Lowercase\""},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", json::array({{{"type", "NFC"}}, {{"type", "X"}}})}},
       "f: normalizer.normalizers[1]: the normalizer \"X\""},
      {"/pre_tokenizer", nullptr, "f: pre_tokenizer: "},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "f: pre_tokenizer: "},
      {"/pre_tokenizer/use_regex", 1, "f: pre_tokenizer.use_regex: must be true or false"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}},
       "f: pre_tokenizer.pretokenizers[0].pattern.Regex: the regular expression is broken"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::array({byte_level, byte_level})}},
       "f: pre_tokenizer.pretokenizers[0]: ByteLevel must be the last"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", json::array({{{"type", "Punctuation"}}, byte_level})}},
       "f: pre_tokenizer.pretokenizers[0]: the pre-tokenizer \"Punctuation\""},
      {"/post_processor", {{"type", "BertProcessing"}}, "f: post_processor: \"BertProcessing\""},
      {"/decoder", nullptr, "f: decoder: must be an object"},
      {"/decoder", {{"type", "Metaspace"}}, "f: decoder: \"Metaspace\""},
      {"/model/type", "Unigram", "f: model: the model \"Unigram\""},
      {"/model/dropout", 0.1, "f: model.dropout: "},
      {"/model/end_of_word_suffix", "</w>", "f: model.end_of_word_suffix: "},
      {"/model/new", 1, "f: model: has the field \"new\""},
      {"/model/vocab/a", -1, "f: model.vocab: the id of \"a\""},
      {"/model/vocab/a", 98, "f: model.vocab: the id 98 stands twice"},
      {"/model/vocab", json::object(), "f: model.merges: element 0 has a token"},
      {"/model/merges", 3, "f: model.merges: must be a list"},
      {"/model/merges/0", "a b c", "f: model.merges: element 0 is not a pair"},
      {"/model/merges/0", {"a", "x"}, "f: model.merges: element 0 has a token"},
      {"/model/merges/1", {"a", "b"}, "f: model.merges: element 1 stands twice"},
      {"/added_tokens/0", special, "f: model.merges: element 0 makes a special token"},
      {"/added_tokens/0", {{"id", 300}}, "f: added_tokens[0].content: must be a string"},
      {"/added_tokens/0", TestAddedToken(300, ""), "f: added_tokens[0].content: must have"},
      {"/added_tokens/0", TestAddedToken(-3, "x"), "f: added_tokens[0].id: must be a token id"},
      {"/added_tokens/0", TestAddedToken(256, "xy"), "f: added_tokens: the id 256 is another"},
      {"/added_tokens/0", TestAddedToken(300, "a"), "f: added_tokens: \"a\" has another id"},
  };
  for (const Refusal& refusal : refusals) {
    auto file = TestTokenizerJson({{"a", "b"}, {"b", "c"}});
    file[json::json_pointer(refusal.pointer)] = refusal.value;
    const auto tokenizer = BpeTokenizer::Parse(file.dump(), "f");
    ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << refusal.pointer;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(refusal.error));
  }
}

TEST(BpeTokenizerTest, WhatHasNoEffectIsAccepted) {
  auto json = TestTokenizerJson();
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", {}}}}}};
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteLevel"}}}}};
  json["model"]["dropout"] = 0.0;
  json["model"]["unk_token"] = "<unk>";
  json["model"]["end_of_word_suffix"] = "";
  EXPECT_THAT(MustParse(json)->Encode("a", true), ElementsAre('a'));
}

}  // namespace
}  // namespace fermata
