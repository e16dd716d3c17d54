#include "engine/tokenizer/tokenizer.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/utf8.h"
#include "engine/tokenizer/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/test_vocab.h"
#include "tests/files.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string RandomBytes(std::mt19937& random, size_t size) {
  std::string bytes;
  while (bytes.size() < size) bytes.push_back(static_cast<char>(random()));
  return bytes;
}

TEST(ByteTokenizerTest, IdsAreBytes) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  EXPECT_THAT(tokenizer.Encode(std::string("A\0\xFF", 3), true), ElementsAre(65, 0, 255));
  EXPECT_EQ(tokenizer.TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer.TokenBytes(256), "");
  EXPECT_EQ(tokenizer.TokenBytes(-1), "");
  EXPECT_EQ(tokenizer.Decode({0xC3, 0xA9, 0xC3, 'x'}, false), "é\xEF\xBF\xBDx");
}

// A tokenizer whose tokens cut characters in all ways, with special tokens.
std::unique_ptr<Tokenizer> CuttingTokenizer() {
  auto json = TestTokenizerJson({{"\xF0", "\x9F"},
                                 {"\x98", "\x80"},
                                 {"a", "\xE2"},
                                 {"\x82", "\xAC"},
                                 {"\xAC", "z"},
                                 {"\xF0\x9F", "\x98"}});
  json["added_tokens"] = {TestAddedToken(300, "<s>"), TestAddedToken(301, "\xE2\x82\xAC!")};
  json["added_tokens"][0]["special"] = true;
  return MustParse(json);
}

TEST(IncrementalDecoderTest, StreamEqualsWholeForRandomIds) {
  const auto tokenizer = CuttingTokenizer();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 12; ++i) {
      // Half of them from the tokens that begin, go on with and end characters.
      const std::vector<int32_t> cutting = {0xF0, 0x9F, 0x98, 0x80, 0xE2, 0x82, 0xAC, 256,
                                            257,  258,  259,  260,  261,  300,  301};
      const bool any = random() % 2 == 0;
      ids.push_back(any ? static_cast<int32_t>(random() % 320) - 5
                        : cutting[random() % cutting.size()]);
    }
    IncrementalDecoder decoder(*tokenizer);
    std::string stream;
    for (const int32_t id : ids) {
      const std::string text = decoder.Append(id);
      ASSERT_EQ(ValidUtf8Length(text), text.size());
      ASSERT_TRUE(text.empty() || !tokenizer->IsSpecial(id));
      stream += text;
    }
    stream += decoder.Finish();
    ASSERT_EQ(stream, tokenizer->Decode(ids, /*keep_special=*/false));
    ASSERT_EQ(decoder.Finish(), "");
  }
}

TEST(IncrementalDecoderTest, GivesACharacterWithTheByteThatCompletesIt) {
  const ByteTokenizer tokenizer;
  IncrementalDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Append(0xE2), "");
  EXPECT_EQ(decoder.Append(0x82), "");
  EXPECT_EQ(decoder.Append(0xAC), "€");
  EXPECT_EQ(decoder.Append(0xE2), "");
  EXPECT_EQ(decoder.Append('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoder.Append(0xF0), "");
  EXPECT_EQ(decoder.Append(0x9F), "");
  EXPECT_EQ(decoder.Finish(), "\xEF\xBF\xBD");
}

TEST(DecodeTest, SpecialTokensDoNotCutCharactersThatGoOnAfterThem) {
  const auto tokenizer = CuttingTokenizer();
  EXPECT_EQ(tokenizer->Decode({0xE2, 300, 0x82, 0xAC}, false), "€");
  EXPECT_EQ(tokenizer->Decode({0xE2, 300, 0x82}, true), "\xEF\xBF\xBD<s>\xEF\xBF\xBD");
}

class LoadTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) { directory_.Write(name, text); }
  absl::StatusOr<std::unique_ptr<Tokenizer>> Load(int64_t vocab_size) {
    return Tokenizer::Load(directory_.path(), vocab_size);
  }

 private:
  const TempDir directory_;
};

TEST_F(LoadTest, ByteTokenizerWithoutFilesAndWith256Tokens) {
  const auto tokenizer = Load(256);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "byte");
  const auto other = Load(257);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("tokenizer.json: no such file"));
}

TEST_F(LoadTest, FilesOfOtherKindsAreRefusedByName) {
  Write("tokenizer.model", "");
  const auto tokenizer = Load(256);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.model"));
}

TEST_F(LoadTest, BpeFromFileWithIdsInsideTheModelsVocabulary) {
  Write("tokenizer.json", TestTokenizerJson({{"a", "b"}}).dump());
  const auto tokenizer = Load(257);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "bpe");
  EXPECT_EQ((*tokenizer)->vocab_size(), 257);
  EXPECT_TRUE(Load(300).ok());
  const auto small = Load(256);
  EXPECT_EQ(small.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(small.status().message()), HasSubstr("has ids up to 256"));
}

TEST_F(LoadTest, BrokenFilesAreErrors) {
  const std::string whole = TestTokenizerJson({{"a", "b"}}).dump();
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string broken = whole.substr(0, random() % whole.size());
    if (round % 2 == 0) broken += RandomBytes(random, random() % 50);
    Write("tokenizer.json", broken);
    const auto tokenizer = Load(300);
    ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fermata
