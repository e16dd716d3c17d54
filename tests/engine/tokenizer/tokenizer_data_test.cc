// Tokenizers as GGUF files carry them, built here from the published files of the conformance set,
// in the way that the converters of llama.cpp do.

#include "engine/tokenizer/tokenizer_data.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/engine/tokenizer/sentencepiece_oracle.h"
#include "tests/engine/tokenizer/test_vocab.h"
#include "tests/files.h"
#include "utf8proc.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Whether NFC, of which a GGUF file says nothing, leaves the text as it is.
bool IsNfc(const std::string& text) {
  if (text.find('\0') != text.npos) return true;
  utf8proc_uint8_t* composed =
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  const bool same = composed != nullptr && text == reinterpret_cast<char*>(composed);
  std::free(composed);
  return same;
}

// repr() of a bytes object, without the b and the quotes.
std::string Repr(const std::string& bytes) {
  const bool double_quotes = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  std::string repr;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || (c == '\'' && !double_quotes)) {
      repr += std::string("\\") + c;
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (c == '\t') {
      repr += "\\t";
    } else if (byte < 0x20 || byte >= 0x7F) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\x%02x", byte);
      repr += escape;
    } else {
      repr += c;
    }
  }
  return repr;
}

void ExpectConformance(const Tokenizer& tokenizer, const std::string& folder, bool parse_special,
                       const std::function<bool(const std::string&)>& counts) {
  int checked = 0;
  for (const auto& item : ReadJson(*ConformanceDir() / "tokenizers" / folder / "encode.json")) {
    const std::string text = FromHex(item.at("hex").get<std::string>());
    if (!counts(text)) continue;
    EXPECT_EQ(tokenizer.Encode(text, parse_special), item.at("ids").get<std::vector<int32_t>>())
        << item.at("name");
    ++checked;
  }
  EXPECT_GE(checked, 80);
}

TEST(TokenizerDataTest, RwkvAsItsVocabulary) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const TempDir directory;
  std::filesystem::create_symlink(
      *ConformanceDir() / "tokenizers/rwkv_world/rwkv_vocab_v20230424.txt",
      directory.path() / "vocab.txt");
  const auto published = Tokenizer::Load(directory.path(), 65536).value();
  TokenizerData data{.source = "f", .model = "rwkv", .tokens = {"<s>"}, .types = {kControlToken}};
  for (int32_t id = 1; id < 65536; ++id) {
    const bool pad = id >= published->vocab_size();
    data.tokens.push_back(pad ? "[PAD" + std::to_string(id) + "]"
                              : Repr(std::string(published->TokenBytes(id))));
    data.types.push_back(pad ? kUnusedToken : kNormalToken);
  }
  const auto tokenizer = Tokenizer::FromData(data, 65536);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "rwkv");
  EXPECT_THAT((*tokenizer)->Encode("<s>", true), ElementsAre(0));
  ExpectConformance(**tokenizer, "rwkv_world", /*parse_special=*/false,
                    [](const std::string&) { return true; });
}

TEST(TokenizerDataTest, Gpt2AsItsTokenizerJson) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto file = ReadJson(*ConformanceDir() / "tokenizers/gpt_neox_20b/tokenizer.json");
  TokenizerData data{.source = "f", .model = "gpt2", .pre = "mpt"};
  const auto set = [&](size_t id, const std::string& token, int32_t type) {
    if (data.tokens.size() <= id) {
      data.tokens.resize(id + 1);
      data.types.resize(id + 1, kUnusedToken);
    }
    data.tokens[id] = token;
    data.types[id] = type;
  };
  for (const auto& [token, id] : file["model"]["vocab"].items()) set(id, token, kNormalToken);
  for (const auto& token : file["added_tokens"]) {
    set(token["id"], token["content"], token["special"] ? kControlToken : kUserDefinedToken);
  }
  for (const auto& merge : file["model"]["merges"]) {
    data.merges.push_back(merge.is_string()
                              ? merge.get<std::string>()
                              : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  const auto tokenizer = Tokenizer::FromData(data, 50432);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "bpe");
  EXPECT_TRUE((*tokenizer)->start_ids().empty());
  ExpectConformance(**tokenizer, "gpt_neox_20b", /*parse_special=*/true, IsNfc);
}

TEST(TokenizerDataTest, LlamaAsItsSentencePieceModel) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const SentencePieceOracle library(*ConformanceDir() /
                                    "tokenizers/mistral_spm_v1/tokenizer.model");
  TokenizerData data{.source = "f", .model = "llama", .tokens = library.Pieces(), .bos = 1};
  data.scores = library.Scores();
  for (const int type : library.Types()) data.types.push_back(type);
  const auto tokenizer = Tokenizer::FromData(data, 32000);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "sentencepiece");
  EXPECT_THAT((*tokenizer)->start_ids(), ElementsAre(1));
  ExpectConformance(**tokenizer, "mistral_spm_v1", /*parse_special=*/false,
                    [](const std::string&) { return true; });
  data.add_space_prefix = false;
  data.add_bos = false;
  const auto plain = Tokenizer::FromData(data, 32000).value();
  EXPECT_THAT(plain->start_ids(), ElementsAre());
  EXPECT_EQ(plain->Encode("Hello", false),
            (*tokenizer)->Encode("Hello", false, TextPlace::kContinuation));
  EXPECT_EQ(plain->Decode(plain->Encode(" a", false), false), " a");
}

// The bytes, and the results of `merges`, as a GGUF file has them.
TokenizerData Gpt2Data(const std::string& pre, const std::vector<std::string>& merges = {}) {
  TokenizerData data{.source = "f", .model = "gpt2", .pre = pre};
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(Spell(std::string(1, static_cast<char>(byte))));
  }
  for (const std::string& merge : merges) {
    data.merges.push_back(merge);
    std::string token = merge;
    token.erase(token.find(' '), 1);
    data.tokens.push_back(token);
  }
  return data;
}

// Where the regular expressions of the three families differ: digits, and case in contractions.
TEST(TokenizerDataTest, PreTokenizersCutByTheirNames) {
  const std::vector<std::string> merges = {"1 2", "12 3", "123 4", "L L", "' LL", "! \xC4\x8A"};
  const int32_t digits3 = 257, digits4 = 258, apostrophe_ll = 260, bang_line = 261;
  for (const std::string pre : {"gpt-2", "mpt", "olmo", "phi-2"}) {
    const auto tokenizer = Tokenizer::FromData(Gpt2Data(pre, merges), 1000).value();
    EXPECT_THAT(tokenizer->Encode("1234", false), ElementsAre(digits4)) << pre;
    EXPECT_THAT(tokenizer->Encode("'LL", false), ElementsAre('\'', 259)) << pre;
    EXPECT_THAT(tokenizer->Encode("!\n", false), ElementsAre('!', '\n')) << pre;
  }
  for (const std::string pre : {"llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe"}) {
    const auto tokenizer = Tokenizer::FromData(Gpt2Data(pre, merges), 1000).value();
    EXPECT_THAT(tokenizer->Encode("1234", false), ElementsAre(digits3, '4')) << pre;
    EXPECT_THAT(tokenizer->Encode("'LL", false), ElementsAre(apostrophe_ll)) << pre;
    EXPECT_THAT(tokenizer->Encode("!\n", false), ElementsAre(bang_line)) << pre;
  }
  for (const std::string pre : {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"}) {
    const auto tokenizer = Tokenizer::FromData(Gpt2Data(pre, merges), 1000).value();
    EXPECT_THAT(tokenizer->Encode("12", false), ElementsAre('1', '2')) << pre;
    EXPECT_THAT(tokenizer->Encode("'LL!\n", false), ElementsAre(apostrophe_ll, bang_line)) << pre;
  }
  // Llama 3 takes whole words that are tokens before merges, and begins with a BOS.
  auto data = Gpt2Data("llama-bpe", {"a b", "b c", "a bc"});
  data.bos = 65;
  EXPECT_THAT(Tokenizer::FromData(data, 1000).value()->Encode("abc", false), ElementsAre(258));
  EXPECT_THAT(Tokenizer::FromData(data, 1000).value()->start_ids(), ElementsAre(65));
  data.pre = "dbrx";
  EXPECT_THAT(Tokenizer::FromData(data, 1000).value()->Encode("abc", false), ElementsAre(256, 99));
  EXPECT_THAT(Tokenizer::FromData(data, 1000).value()->start_ids(), ElementsAre());
}

TEST(TokenizerDataTest, UnusedTokensStandForNothing) {
  auto gpt2 = Gpt2Data("gpt-2");
  gpt2.types.assign(256, kNormalToken);
  TokenizerData llama{.source = "f",
                      .model = "llama",
                      .tokens = {"<unk>", "[", "P"},
                      .scores = {0, -1, -2},
                      .types = {kUnknownToken, kNormalToken, kNormalToken}};
  for (TokenizerData* data : {&gpt2, &llama}) {
    data->tokens.push_back("[P");
    data->types.push_back(kUnusedToken);
    data->scores.push_back(0);
    const auto tokenizer = Tokenizer::FromData(*data, 300);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto id = static_cast<int32_t>(data->tokens.size()) - 1;
    EXPECT_EQ((*tokenizer)->vocab_size(), id + 1);
    EXPECT_EQ((*tokenizer)->TokenBytes(id), "");
    for (const int32_t each : (*tokenizer)->Encode("[P", false)) EXPECT_NE(each, id);
  }
}

// User-defined tokens are cut out whatever parse_special says; control tokens when it is set.
TEST(TokenizerDataTest, ControlAndUserDefinedTokensAreCutOut) {
  auto data = Gpt2Data("gpt-2", {"a b"});
  data.types.assign(data.tokens.size(), kNormalToken);
  for (const auto& [token, type] :
       {std::pair("<|end|>", kControlToken), std::pair("   ", kUserDefinedToken)}) {
    data.tokens.emplace_back(token);
    data.types.push_back(type);
  }
  const auto tokenizer = Tokenizer::FromData(data, 300).value();
  EXPECT_THAT(tokenizer->Encode("ab   ab<|end|>", true), ElementsAre(256, 258, 256, 257));
  EXPECT_EQ(tokenizer->Encode("   <|end|>", false).size(), 8u);
  EXPECT_TRUE(tokenizer->IsSpecial(257));
  EXPECT_FALSE(tokenizer->IsSpecial(258));
  EXPECT_EQ(tokenizer->Decode({256, 257, 258}, false), "ab   ");
}

TEST(TokenizerDataTest, BrokenDataAreErrorsThatSayWhat) {
  const auto llama = [] {
    return TokenizerData{.source = "f",
                         .model = "llama",
                         .tokens = {"<unk>", "a", "b", "ab"},
                         .scores = {0, -1, -2, -3},
                         .types = {kUnknownToken, kNormalToken, kNormalToken, kNormalToken}};
  };
  const auto rwkv = [] {
    TokenizerData data{.source = "f", .model = "rwkv", .tokens = {"<s>"}, .types = {kControlToken}};
    for (int byte = 0; byte < 256; ++byte) {
      data.tokens.push_back(Repr(std::string(1, static_cast<char>(byte))));
      data.types.push_back(kNormalToken);
    }
    return data;
  };
  ASSERT_TRUE(Tokenizer::FromData(llama(), 4).ok()) << Tokenizer::FromData(llama(), 4).status();
  ASSERT_TRUE(Tokenizer::FromData(rwkv(), 257).ok());
  const auto expect = [](TokenizerData data, const std::function<void(TokenizerData&)>& damage,
                         const std::string& error) {
    damage(data);
    const auto tokenizer = Tokenizer::FromData(data, 300);
    ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << error;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(error));
  };
  using Data = TokenizerData;
  expect(
      llama(), [](Data& d) { d.model = "t5"; }, "f: the tokenizer model \"t5\" is not supported");
  expect(
      llama(), [](Data& d) { d.tokens.clear(); }, "f: has no tokens");
  expect(
      llama(), [](Data& d) { d.types.pop_back(); }, "f: has 3 token types for 4 tokens");
  expect(
      llama(), [](Data& d) { d.types[1] = 9; }, "f: has the token type 9, which is not known");
  expect(
      llama(), [](Data& d) { d.scores.pop_back(); }, "f: has 3 scores for 4 tokens");
  expect(
      llama(), [](Data& d) { d.scores[2] = NAN; }, "f: the token 2, \"b\", has no number");
  expect(
      llama(), [](Data& d) { d.bos = 4; }, "f: the special token id 4 is none of a token");
  expect(
      llama(), [](Data& d) { d.unknown = -1; }, "f: the special token id -1 is none of a token");
  expect(
      llama(), [](Data& d) { d.tokens[2] = "a"; }, "f: the piece 2, \"a\", stands twice");
  expect(
      llama(), [](Data& d) { d.tokens[2] = "\xFF"; }, "f: the piece 2, \"\\xff\", is not UTF-8");
  expect(
      llama(), [](Data& d) { d.tokens[2] = std::string(2000, 'x'); }, "is too long");
  expect(
      llama(), [](Data& d) { d.types[2] = kByteToken; }, "f: the token 2, \"b\", is a byte, but");
  expect(
      llama(), [](Data& d) { d.types[0] = kNormalToken; }, "f: has no token for the byte 0 and");
  expect(
      llama(), [](Data& d) { d.added = {{.id = 1, .content = "c"}}; },
      "f: the token 1, \"a\", is another than the added \"c\"");
  expect(
      llama(), [](Data& d) { d.added = {{.id = 300, .content = "c"}}; },
      "f: has ids up to 300, but the model has 300 tokens");
  expect(
      rwkv(), [](Data& d) { d.tokens[5] = "\\q"; }, "f: the token 5, \"\\\\q\", has the escape");
  expect(
      rwkv(), [](Data& d) { d.tokens[5] = ""; }, "f: has no token for the byte 4");
  expect(
      rwkv(),
      [](Data& d) {
        d.tokens.push_back("a");
        d.types.push_back(1);
      },
      "f: the token \"a\" has the ids 98 and 257");
  expect(
      rwkv(),
      [](Data& d) {
        d.tokens.resize(301, "[PAD]");
        d.types.resize(301, kUnusedToken);
      },
      "f: has ids up to 300, but the model has 300 tokens");
  const Data gpt2 = Gpt2Data("gpt-2", {"a b"});
  expect(
      gpt2, [](Data& d) { d.pre = ""; }, "f: the pre-tokenizer \"\" is not supported");
  expect(
      gpt2, [](Data& d) { d.pre = "x"; }, "f: the pre-tokenizer \"x\" is not supported");
  expect(
      gpt2, [](Data& d) { d.merges[0] = "ab"; }, "f: merges: element 0 is not a pair of tokens");
  expect(
      gpt2, [](Data& d) { d.merges[0] = "a c"; }, "f: merges: element 0 has a token that is not");
  expect(
      gpt2, [](Data& d) { d.merges.push_back("a b"); }, "f: merges: element 1 stands twice");
  expect(
      gpt2, [](Data& d) { d.tokens[1] = d.tokens[0]; }, "is the token 0 too");
  expect(
      gpt2,
      [](Data& d) {
        d.tokens[97] = "xyz";
        d.merges.clear();
      },
      "f: tokens: has no token for the byte 97");
}

}  // namespace
}  // namespace fermata
