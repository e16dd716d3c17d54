#include "engine/tokenizer/rwkv_tokenizer.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/test_vocab.h"
#include "tests/files.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RwkvTokenizerTest, TakesTheLongestTokenAtEachPoint) {
  std::mt19937 random(8);
  const std::string letters = "ab\xE2\x82\xAC";
  for (int table = 0; table < 40; ++table) {
    std::map<std::string, int32_t> ids;
    for (int byte = 0; byte < 256; ++byte) ids[std::string(1, static_cast<char>(byte))] = byte + 1;
    std::vector<std::string> more;
    for (int i = 0; i < 20; ++i) {
      std::string token;
      for (size_t size = 2 + random() % 4; size > 0; --size) token += letters[random() % 5];
      if (ids.emplace(token, 257 + static_cast<int32_t>(more.size())).second) more.push_back(token);
    }
    const auto tokenizer = RwkvTokenizer::Parse(TestRwkvVocab(more), "f", 1000, {}).value();
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (size_t size = random() % 40; size > 0; --size) {
        text += random() % 10 == 0 ? static_cast<char>(random()) : letters[random() % 5];
      }
      std::vector<int32_t> expected;
      for (size_t at = 0; at < text.size();) {
        size_t length = std::min<size_t>(5, text.size() - at);
        while (!ids.contains(text.substr(at, length))) --length;
        expected.push_back(ids[text.substr(at, length)]);
        at += length;
      }
      ASSERT_EQ(tokenizer->Encode(text, true), expected);
      std::string joined;
      for (const int32_t id : expected) joined += tokenizer->TokenBytes(id);
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(RwkvTokenizerTest, IdZeroEndsATextAndStandsForNone) {
  const auto tokenizer = RwkvTokenizer::Parse(TestRwkvVocab({}), "f", 257, {}).value();
  EXPECT_EQ(tokenizer->kind(), "rwkv");
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(1) || tokenizer->IsSpecial(-1) || tokenizer->IsSpecial(257));
  EXPECT_EQ(tokenizer->TokenBytes(0), "");
  EXPECT_EQ(tokenizer->TokenBytes(98), "a");
  EXPECT_EQ(tokenizer->Decode({98, 0, 99}, true), "ab");
  EXPECT_TRUE(tokenizer->start_ids().empty());
}

TEST(RwkvTokenizerTest, FilesByNameAndByContent) {
  const std::string config = R"({"bos_token": "<end>", "add_bos_token": true,
      "added_tokens_decoder": {
        "0": {"content": "<end>", "lstrip": false, "normalized": false, "rstrip": false,
              "single_word": false, "special": true},
        "258": {"content": "<user>", "lstrip": false, "normalized": false, "rstrip": false,
                "single_word": false, "special": false}}})";
  for (const std::string name : {"rwkv_vocab_v20230424.txt", "vocab.txt"}) {
    const TempDir directory;
    directory.Write(name, TestRwkvVocab({"ab"}));
    EXPECT_THAT(Tokenizer::Load(directory.path(), 258).value()->Encode("ab", true),
                ElementsAre(257));
    directory.Write("tokenizer_config.json", config);
    const auto tokenizer = Tokenizer::Load(directory.path(), 259).value();
    EXPECT_THAT(tokenizer->Encode("a<end><user>", true), ElementsAre(98, 0, 258));
    EXPECT_THAT(tokenizer->Encode("<user>", false), ElementsAre(258));
    EXPECT_EQ(tokenizer->Encode("<end>", false).size(), 5u);
    EXPECT_EQ(tokenizer->Decode({98, 0, 258}, false), "a<user>");
    EXPECT_THAT(tokenizer->start_ids(), ElementsAre(0));
    EXPECT_THAT(std::string(Tokenizer::Load(directory.path(), 258).status().message()),
                HasSubstr("added_tokens_decoder: has the id 258, but the model has 258 tokens"));
  }
  const TempDir directory;
  directory.Write("vocab.txt", "[PAD]\n[UNK]\n");
  EXPECT_THAT(std::string(Tokenizer::Load(directory.path(), 258).status().message()),
              HasSubstr("vocab.txt: line 1: is not of an RWKV World vocabulary"));
}

TEST(RwkvTokenizerTest, BrokenFilesAreErrorsThatNameTheLine) {
  const std::string good = TestRwkvVocab({"ab"});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "f: has no token for the byte 0"},
      {good.substr(0, good.size() - 6), "f: line 257: "},
      {good.substr(0, good.find("\n", 3000) + 1), "f: has no token for the byte "},
      {good + "\n", "f: line 258: must have an id, a literal and a length"},
      {good + "258 'x'\n", "f: line 258: must have an id, a literal and a length"},
      {good + "258 'xy' 3\n", "f: line 258: the literal has 2 bytes, and the line ends in \"3\""},
      {good + "258 '' 0\n", "f: line 258: the literal has 0 bytes"},
      {good + "258 'xy' two\n", "f: line 258: the literal has 2 bytes, and the line ends in"},
      {good + "0 'xy' 2\n", "f: line 258: \"0\" is not an id from 1 to 299"},
      {good + "-1 'xy' 2\n", "f: line 258: \"-1\" is not an id from 1 to 299"},
      {good + "300 'xy' 2\n", "f: line 258: \"300\" is not an id from 1 to 299"},
      {good + "1x 'xy' 2\n", "f: line 258: \"1x\" is not an id"},
      {good + "99999999999999999999 'xy' 2\n", "is not an id from 1 to 299"},
      {good + "257 'xy' 2\n", "f: line 258: the id 257 stands twice"},
      {good + "258 'ab' 2\n", "f: the token \"ab\" has the ids 257 and 258"},
      {good + "258 __import__('os') 2\n", "f: line 258: "},
      {good + "258 'xy 2\n", "f: line 258: "},
      {good + "258 b'\xE4\xBD\xA0' 3\n", "f: line 258: has a character that is not ASCII"},
      {good + "258 '\\ud800' 3\n", "f: line 258: has the escape"},
  };
  for (const auto& [text, error] : cases) {
    const auto tokenizer = RwkvTokenizer::Parse(text, "f", 300, {});
    ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << error;
    const std::string message(tokenizer.status().message());
    EXPECT_THAT(message, HasSubstr(error));
    EXPECT_EQ(message.find('\n'), message.npos);
  }
  std::string windows;
  for (const char c : good) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_TRUE(RwkvTokenizer::Parse(windows, "f", 300, {}).ok());
  EXPECT_EQ(RwkvTokenizer::Parse(good, "f", 300, {{.id = 98, .content = "x"}}).status().message(),
            "f: the id 98 of \"x\" is another token's");
}

}  // namespace
}  // namespace fermata
