#include "tests/engine/tokenizer/test_vocab.h"

#include "engine/tokenizer/bpe_tokenizer.h"
#include "gtest/gtest.h"

namespace fermata {

std::string Spell(const std::string& bytes) {
  std::string spelled;
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    const auto is_printable = [](int b) {
      return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    };
    int code_point = byte;
    if (!is_printable(byte)) {
      code_point = 256;
      for (int b = 0; b < byte; ++b) code_point += is_printable(b) ? 0 : 1;
    }
    if (code_point < 0x80) {
      spelled.push_back(static_cast<char>(code_point));
    } else {
      spelled.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
      spelled.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
    }
  }
  return spelled;
}

nlohmann::json TestTokenizerJson(const std::vector<std::pair<std::string, std::string>>& merges) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[Spell(std::string(1, static_cast<char>(byte)))] = byte;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    const std::string merged = Spell(left + right);
    if (!vocab.contains(merged)) {
      const int id = static_cast<int>(vocab.size());
      vocab[merged] = id;
    }
    list.push_back({Spell(left), Spell(right)});
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

nlohmann::json TestAddedToken(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

std::unique_ptr<Tokenizer> MustParse(const nlohmann::json& json) {
  auto tokenizer = BpeTokenizer::Parse(json.dump(), "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace fermata
