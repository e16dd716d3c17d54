#include "tests/engine/tokenizer/test_vocab.h"

#include <cstdio>

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

std::string TestBytePiece(int byte) {
  char piece[8];
  std::snprintf(piece, sizeof(piece), "<0x%02X>", byte);
  return piece;
}

nlohmann::json TestPieceJson(const std::vector<std::string>& pieces,
                             const std::vector<std::pair<std::string, std::string>>& merges) {
  nlohmann::json vocab = nlohmann::json::object();
  const auto add = [&](const std::string& piece) {
    const int id = static_cast<int>(vocab.size());
    if (!vocab.contains(piece)) vocab[piece] = id;
  };
  for (int byte = 0; byte < 256; ++byte) add(TestBytePiece(byte));
  for (const std::string& piece : pieces) add(piece);
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    add(left + right);
    list.push_back({left, right});
  }
  const std::string mark = "\xE2\x96\x81";
  const nlohmann::json space = {{"String", " "}};
  return {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", mark}},
          {{"type", "Replace"}, {"pattern", space}, {"content", mark}}}}}},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", nlohmann::json{{"String", mark}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", nullptr},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", list}}}};
}

std::string TestRwkvVocab(const std::vector<std::string>& tokens) {
  std::string text;
  int id = 0;
  const auto add = [&](const std::string& token) {
    text += std::to_string(++id) + " b'";
    for (const char c : token) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned char>(c));
      text += escape;
    }
    text += "' " + std::to_string(token.size()) + "\n";
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const std::string& token : tokens) add(token);
  return text;
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
