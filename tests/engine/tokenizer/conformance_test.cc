// Every tokenizer of the conformance set that this engine can load, against the ids and texts that
// the published libraries gave.

#include "tests/conformance.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

constexpr int64_t kAnySize = 1 << 24;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Calls `check` with each tokenizer that loads, and the JSON of its file `name`.
template <typename Check>
void ForEachTokenizer(const std::string& name, Check check) {
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*ConformanceDir() / "tokenizers")) {
    const auto tokenizer = Tokenizer::Load(entry.path().string(), kAnySize);
    if (!tokenizer.ok()) {
      std::cout << "[ SKIPPED  ] " << tokenizer.status().message() << "\n";
      continue;
    }
    if (!std::filesystem::exists(entry.path() / name)) continue;
    SCOPED_TRACE(entry.path().filename().string());
    check(**tokenizer, ReadJson(entry.path() / name));
    ++checked;
  }
  EXPECT_GE(checked, 1);
}

TEST(TokenizerConformance, EncodesAsTheReference) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  ForEachTokenizer("encode.json", [](const Tokenizer& tokenizer, const nlohmann::json& cases) {
    EXPECT_GE(cases.size(), 80u);
    for (const auto& item : cases) {
      SCOPED_TRACE(item.at("name").get<std::string>());
      const std::string text = FromHex(item.at("hex").get<std::string>());
      const auto ids = item.at("ids").get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.Encode(text, /*parse_special=*/true), ids);
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/true), item.at("decoded"));
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/false), item.at("decoded_skip_special"));
    }
  });
}

TEST(TokenizerConformance, DecodesAsTheReference) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  ForEachTokenizer("decode.json", [](const Tokenizer& tokenizer, const nlohmann::json& cases) {
    for (const auto& item : cases) {
      const auto ids = item.at("ids").get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/true), item.at("decoded"));
    }
  });
}

TEST(TokenizerConformance, SpecialTextIsOrdinaryUnlessParsed) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  ForEachTokenizer("encode.json", [](const Tokenizer& tokenizer, const nlohmann::json& cases) {
    for (const auto& item : cases) {
      const std::string text = FromHex(item.at("hex").get<std::string>());
      const auto ids = tokenizer.Encode(text, /*parse_special=*/false);
      for (const int32_t id : ids) EXPECT_FALSE(tokenizer.IsSpecial(id)) << id;
      // Whatever the special texts in it, decoding gives what the reference's ids give with them.
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/false), item.at("decoded"));
    }
  });
}

}  // namespace
}  // namespace fermata
