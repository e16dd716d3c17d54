// Every tokenizer file of the conformance set that this engine can load, each by itself, against the
// ids and texts that the published libraries gave.

#include "tests/conformance.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files.h"

namespace fermata {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kAnySize = 1 << 24;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// What a string of encode.json says of the tokenizer that was made from `file`. SentencePiece knows
// no special tokens in a text; the others parse them, and have a BOS in front where the file says so.
struct Expected {
  Expected(const json& item, const std::string& file)
      : text(FromHex(item.at("hex").get<std::string>())),
        parse_special(file != "tokenizer.model"),
        ids(item.at("ids").get<std::vector<int32_t>>()) {
    if (file == "tokenizer.json" && item.contains("hf_ids")) {
      ids = item.at("hf_ids").get<std::vector<int32_t>>();
      decoded = item.at("hf_decoded");
    } else if (item.contains("decoded_skip_special")) {
      decoded = item.at("decoded_skip_special");
    } else if (item.contains("decoded")) {
      decoded = item.at("decoded");
    } else if (item.contains("text")) {
      decoded = item.at("text");
    }
  }

  std::string text;
  bool parse_special = true;
  std::vector<int32_t> ids;
  json decoded;  // Without special tokens; null where the reference gave none.
};

// Calls `check(tokenizer, json, file)` for each tokenizer file in a folder that has the file `name`.
template <typename Check>
void ForEachTokenizer(const std::string& name, Check check) {
  int checked = 0;
  for (const auto& folder : std::filesystem::directory_iterator(*ConformanceDir() / "tokenizers")) {
    bool known = false;
    for (const std::string file :
         {"tokenizer.json", "tokenizer.model", "rwkv_vocab_v20230424.txt", "vocab.txt"}) {
      if (!std::filesystem::exists(folder.path() / file)) continue;
      known = true;
      if (!std::filesystem::exists(folder.path() / name)) continue;
      SCOPED_TRACE((folder.path() / file).string());
      const TempDir directory;
      std::filesystem::create_symlink(folder.path() / file, directory.path() / file);
      const auto tokenizer = Tokenizer::Load(directory.path(), kAnySize);
      if (!tokenizer.ok()) {
        std::cout << "[ SKIPPED  ] " << tokenizer.status().message() << "\n";
        EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("not supported"));
        continue;
      }
      check(**tokenizer, ReadJson(folder.path() / name), file);
      ++checked;
    }
    if (!known) std::cout << "[ SKIPPED  ] " << folder.path() << ": of an unknown kind\n";
  }
  EXPECT_GE(checked, 1);
}

TEST(TokenizerConformance, EncodesAsTheReference) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto check = [](const Tokenizer& tokenizer, const json& cases, const std::string& file) {
    EXPECT_GE(cases.size(), 80u);
    for (const auto& item : cases) {
      SCOPED_TRACE(item.at("name").get<std::string>());
      const Expected expected(item, file);
      std::vector<int32_t> ids;
      if (file == "tokenizer.json") ids = tokenizer.start_ids();
      const auto encoded = tokenizer.Encode(expected.text, expected.parse_special);
      ids.insert(ids.end(), encoded.begin(), encoded.end());
      EXPECT_EQ(ids, expected.ids);
      if (expected.decoded.is_null()) continue;
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/false), expected.decoded);
      if (!item.contains("decoded_skip_special")) continue;
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/true), item.at("decoded"));
    }
  };
  ForEachTokenizer("encode.json", check);
}

TEST(TokenizerConformance, DecodesAsTheReference) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto check = [](const Tokenizer& tokenizer, const json& cases, const std::string&) {
    for (const auto& item : cases) {
      const auto ids = item.at("ids").get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/true), item.at("decoded"));
    }
  };
  ForEachTokenizer("decode.json", check);
}

TEST(TokenizerConformance, SpecialTextIsOrdinaryUnlessParsed) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto check = [](const Tokenizer& tokenizer, const json& cases, const std::string&) {
    for (const auto& item : cases) {
      const std::string text = FromHex(item.at("hex").get<std::string>());
      const auto ids = tokenizer.Encode(text, /*parse_special=*/false);
      for (const int32_t id : ids) EXPECT_FALSE(tokenizer.IsSpecial(id)) << id;
      // Whatever the special texts in it, decoding gives what the reference's ids give with them.
      const json& decoded =
          item.contains("decoded") ? item.at("decoded") : item.value("text", json());
      if (decoded.is_null()) continue;
      EXPECT_EQ(tokenizer.Decode(ids, /*keep_special=*/false), decoded);
    }
  };
  ForEachTokenizer("encode.json", check);
}

// Streams of a text's own ids, and of random ones, which cut characters in all ways.
TEST(TokenizerConformance, StreamsEqualTheWhole) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto check = [](const Tokenizer& tokenizer, const json& cases, const std::string&) {
    std::mt19937 random(1);
    for (const auto& item : cases) {
      auto ids = tokenizer.Encode(FromHex(item.at("hex").get<std::string>()), true);
      for (const bool shuffled : {false, true}) {
        if (shuffled) std::shuffle(ids.begin(), ids.end(), random);
        for (const TextPlace place : {TextPlace::kStart, TextPlace::kContinuation}) {
          IncrementalDecoder decoder(tokenizer, place);
          std::string stream;
          for (const int32_t id : ids) stream += decoder.Append(id);
          stream += decoder.Finish();
          EXPECT_EQ(stream, tokenizer.Decode(ids, /*keep_special=*/false, place));
        }
      }
    }
  };
  ForEachTokenizer("encode.json", check);
}

}  // namespace
}  // namespace fermata
