// A tokenizer.json of the Llama and Mistral kind: BPE over characters with byte fallback.

#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/pieces.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/test_vocab.h"
#include "tests/files.h"

namespace fermata {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string kMark = "\xE2\x96\x81";

std::vector<std::string> Tokens(const Tokenizer& tokenizer, const std::string& text,
                                TextPlace place = TextPlace::kStart) {
  std::vector<std::string> tokens;
  for (const int32_t id : tokenizer.Encode(text, /*parse_special=*/true, place)) {
    tokens.emplace_back(tokenizer.TokenBytes(id));
  }
  return tokens;
}

json Metaspace(const std::string& scheme, bool split) {
  return {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", scheme}, {"split", split}};
}

// As the definition has it, without cutting the text first.
std::vector<std::string> NaiveBpe(std::vector<std::string> parts, const Pairs& merges) {
  for (;;) {
    size_t best_rank = merges.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first != parts[i] || merges[rank].second != parts[i + 1]) continue;
        best_rank = rank;
        best_at = i;
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<long>(best_at) + 1);
  }
}

TEST(PieceTokenizerTest, MergesAsDefinedOnRandomTables) {
  std::mt19937 random(12);
  const std::vector<std::string> letters = {"a", "b", "c", kMark, "\xC3\xA9", "\xE4\xBD\xA0"};
  for (int table = 0; table < 60; ++table) {
    std::vector<std::string> known = letters;
    Pairs merges;
    while (merges.size() < 4 + static_cast<size_t>(table) % 25) {
      const std::pair pair(known[random() % known.size()], known[random() % known.size()]);
      if (std::find(merges.begin(), merges.end(), pair) != merges.end()) continue;
      if (pair.first.size() + pair.second.size() > 16) continue;
      merges.push_back(pair);
      known.push_back(pair.first + pair.second);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    auto file = TestPieceJson(letters, merges);
    file["normalizer"] = nullptr;
    const auto tokenizer = MustParse(file);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::string> parts;
      std::string text;
      // Short texts, and such as need the heap.
      for (size_t i = round % 10 == 0 ? 90 : random() % 24; i > 0; --i) {
        parts.push_back(letters[random() % letters.size()]);
        text += parts.back();
      }
      std::vector<std::string> expected = NaiveBpe(parts, merges);
      for (std::string& token : expected) token = ReplaceAll(token, kMark, " ");
      ASSERT_EQ(Tokens(*tokenizer, text), expected) << text;
    }
  }
}

TEST(PieceTokenizerTest, BytesStandInForUnknownCharacters) {
  auto file = TestPieceJson({kMark, "a"}, {});
  const auto tokenizer = MustParse(file);
  EXPECT_THAT(Tokens(*tokenizer, "a\xE4\xBD\xA0"), ElementsAre(" ", "a", "\xE4", "\xBD", "\xA0"));
  EXPECT_THAT(Tokens(*tokenizer, "a\xFF\x80"), ElementsAre(" ", "a", "\xFF", "\x80"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a\xE4\xBD\xA0 a", false), false),
            "a\xE4\xBD\xA0 a");
  // Text that spells a byte's token is text.
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("<0x41>", false), false), "<0x41>");
}

TEST(PieceTokenizerTest, UnknownCharactersWithoutBytes) {
  auto file = TestPieceJson({kMark, "a", "<unk>"}, {});
  for (int byte = 0; byte < 256; ++byte) file["model"]["vocab"].erase(TestBytePiece(byte));
  EXPECT_THAT(std::string(BpeTokenizer::Parse(file.dump(), "f").status().message()),
              HasSubstr("f: model.vocab: has no token for the byte 0 and none for the unknown"));
  file["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(Tokens(*MustParse(file), "xya\xFF"), ElementsAre(" ", "<unk>", "a", "<unk>"));
  file["model"]["fuse_unk"] = false;
  EXPECT_THAT(Tokens(*MustParse(file), "xya"), ElementsAre(" ", "<unk>", "<unk>", "a"));
}

TEST(PieceTokenizerTest, PrependGoesBeforeEveryStartEvenBeforeASpace) {
  auto file = TestPieceJson({kMark, "a"}, {{kMark, "a"}});
  file["added_tokens"] = {TestAddedToken(400, "<x>")};
  const auto tokenizer = MustParse(file);
  EXPECT_THAT(Tokens(*tokenizer, "a"), ElementsAre(" a"));
  EXPECT_THAT(Tokens(*tokenizer, " a"), ElementsAre(" ", " a"));
  EXPECT_THAT(Tokens(*tokenizer, "a<x>a"), ElementsAre(" a", "<x>", " a"));
  EXPECT_THAT(Tokens(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(Tokens(*tokenizer,
                     "a\xFF"
                     "a"),
              ElementsAre(" a", "\xFF", "a"));
  EXPECT_THAT(Tokens(*tokenizer, "a<x>a", TextPlace::kContinuation), ElementsAre("a", "<x>", " a"));
}

TEST(PieceTokenizerTest, MetaspaceSchemes) {
  const Pairs merges = {{kMark, "a"}, {kMark, kMark}};
  auto file = TestPieceJson({kMark, "a"}, merges);
  file["normalizer"] = nullptr;
  file["added_tokens"] = {TestAddedToken(400, "<x>")};
  const std::string text = "a  a<x>a";
  struct Case {
    std::string scheme;
    bool split;
    std::vector<std::string> start, continuation;
  };
  const std::vector<Case> cases = {
      {"first", false, {" a", " ", " a", "<x>", "a"}, {"a", " ", " a", "<x>", "a"}},
      {"always", false, {" a", " ", " a", "<x>", " a"}, {"a", " ", " a", "<x>", " a"}},
      {"never", false, {"a", " ", " a", "<x>", "a"}, {"a", " ", " a", "<x>", "a"}},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.scheme);
    file["pre_tokenizer"] = Metaspace(item.scheme, item.split);
    file["decoder"] = Metaspace(item.scheme, item.split);
    const auto tokenizer = MustParse(file);
    EXPECT_EQ(Tokens(*tokenizer, text), item.start);
    EXPECT_EQ(Tokens(*tokenizer, text, TextPlace::kContinuation), item.continuation);
    EXPECT_EQ(tokenizer->StripsSpaceAtStart(), item.scheme != "never");
    EXPECT_EQ(Tokens(*tokenizer, " a")[0], " a");  // Not one more.
  }
  // Split, every mark begins a word: two never merge.
  file["pre_tokenizer"] = Metaspace("never", false);
  EXPECT_THAT(Tokens(*MustParse(file), "   "), ElementsAre("  ", " "));
  file["pre_tokenizer"] = Metaspace("never", true);
  EXPECT_THAT(Tokens(*MustParse(file), "   "), ElementsAre(" ", " ", " "));
  // The older spelling of the scheme.
  file["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", kMark},
                           {"str_rep", kMark},
                           {"add_prefix_space", true}};
  EXPECT_THAT(Tokens(*MustParse(file), "a<x>a"), ElementsAre(" a", "<x>", " a"));
}

TEST(PieceTokenizerTest, IgnoreMergesTakesWholeTextsFirst) {
  auto file = TestPieceJson({"a", "b", "c"}, {{"a", "b"}, {"b", "c"}, {"a", "bc"}});
  file["normalizer"] = nullptr;
  EXPECT_THAT(Tokens(*MustParse(file), "abc"), ElementsAre("ab", "c"));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(Tokens(*MustParse(file), "abc"), ElementsAre("abc"));
  EXPECT_THAT(Tokens(*MustParse(file), "abca"), ElementsAre("ab", "c", "a"));
}

TEST(PieceTokenizerTest, TheTemplateAndTheConfigSayWhatASequenceBeginsWith) {
  auto file = TestPieceJson({kMark, "a", "<s>"}, {});
  const int bos = file["model"]["vocab"]["<s>"];
  file["added_tokens"] = {TestAddedToken(bos, "<s>")};
  file["added_tokens"][0]["special"] = true;
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {bos}}, {"tokens", {"<s>"}}}}}}};
  const TempDir directory;
  const auto start_ids = [&](const std::string& config) {
    directory.Write("tokenizer.json", file.dump());
    directory.Write("tokenizer_config.json", config);
    return Tokenizer::Load(directory.path(), 1000).value()->start_ids();
  };
  EXPECT_THAT(start_ids("{}"), ElementsAre(bos));
  EXPECT_THAT(start_ids(R"({"add_bos_token": false})"), ElementsAre());
  file["post_processor"] = nullptr;
  EXPECT_THAT(start_ids(R"({"bos_token": "<s>"})"), ElementsAre());
  EXPECT_THAT(start_ids(R"({"bos_token": "<s>", "add_bos_token": true})"), ElementsAre(bos));
  EXPECT_THAT(start_ids(R"({"bos_token": {"content": "<s>"}, "add_bos_token": true})"),
              ElementsAre(bos));
  for (const auto& [config, error] :
       Pairs{{R"({"add_bos_token": 1})", "tokenizer_config.json: add_bos_token: must be true or"},
             {R"({"add_bos_token": true})", "tokenizer_config.json: bos_token: must be there"},
             {R"({"add_bos_token": true, "bos_token": "a"})", "\"a\" is not a special token"},
             {R"({"bos_token": 3})", "tokenizer_config.json: bos_token.content: must be a string"},
             {R"({"added_tokens_decoder": {"x": {}}})", "added_tokens_decoder: the entry \"x\""},
             {"{", "tokenizer_config.json: not valid JSON"}}) {
    directory.Write("tokenizer_config.json", config);
    const auto tokenizer = Tokenizer::Load(directory.path(), 1000);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(error));
  }
}

TEST(PieceTokenizerTest, WhatIsNotSupportedIsRefusedByItsPath) {
  const std::vector<std::tuple<std::string, json, std::string>> refusals = {
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "x"}}}, {"content", ""}},
       "f: normalizer.pattern: has the field \"Regex\""},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", ""}},
       "f: normalizer.pattern.String: is empty"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "_"}},
       "f: pre_tokenizer.replacement: must be U+2581"},
      {"/pre_tokenizer", Metaspace("last", true), "f: pre_tokenizer.prepend_scheme: must be"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", json::array({{{"type", "Digits"}}, Metaspace("first", true)})}},
       "f: pre_tokenizer.pretokenizers[1]: Metaspace must be the first"},
      {"/decoder/decoders/0/content", "_", "f: decoder.decoders[0]: must replace U+2581"},
      {"/decoder/decoders/3/stop", 1, "f: decoder.decoders[3]: must take off one space"},
      {"/decoder", {{"type", "WordPiece"}}, "f: decoder: \"WordPiece\" is not supported"},
      {"/decoder", {{"type", "ByteLevel"}}, "f: pre_tokenizer: must end in ByteLevel"},
      {"/model/merges/0", {kMark, ""}, "f: model.merges: element 0 has a token that is not in"},
      {"/model/merges/1", {kMark, "a"}, "f: model.merges: element 1 stands twice"},
      {"/post_processor",
       {{"type", "TemplateProcessing"},
        {"single", json::array({{{"SpecialToken", {{"id", "<s>"}}}}})},
        {"special_tokens", {{"<s>", {{"ids", {5}}}}}}},
       "f: post_processor: begins with 5, which is not a special token"},
      {"/post_processor",
       {{"type", "TemplateProcessing"},
        {"single", json::array({{{"SpecialToken", {{"id", "x"}}}}})}},
       "f: post_processor.special_tokens.x.ids: must be a list"},
  };
  for (const auto& [pointer, value, error] : refusals) {
    auto file = TestPieceJson({kMark, "a"}, {{kMark, "a"}});
    file[json::json_pointer(pointer)] = value;
    const auto tokenizer = BpeTokenizer::Parse(file.dump(), "f");
    ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << pointer;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(error));
  }
}

}  // namespace
}  // namespace fermata
