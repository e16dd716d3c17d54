// SentencePiece models: against the library, on random text, and broken ones.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/utf8.h"
#include "engine/tokenizer/sentencepiece_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/engine/tokenizer/sentencepiece_oracle.h"
#include "tests/files.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

// The parts of a model in its wire format.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Number(int field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Bytes(int field, const std::string& value) {
  return Varint(field << 3 | 2) + Varint(value.size()) + value;
}
std::string Piece(const std::string& text, float score, int type = kNormalToken) {
  std::string bits(reinterpret_cast<const char*>(&score), sizeof(score));
  return Bytes(1, Bytes(1, text) + Varint(2 << 3 | 5) + bits + Number(3, type));
}

const std::string kMark = "\xE2\x96\x81";
const std::string kBpe = Bytes(2, Number(3, 2));
const std::string kPlainSpaces = Bytes(3, Number(4, 0));
const std::string kSpecials = Piece("<unk>", 0, kUnknownToken) + Piece("<s>", 0, kControlToken) +
                              Piece("</s>", 0, kControlToken);

// Words that the pieces make, and characters that they do not.
std::string RandomText(std::mt19937& random, const std::vector<std::string>& pieces, size_t size) {
  std::string text;
  while (text.size() < size) {
    const uint32_t dice = random() % 16;
    if (dice == 0) {
      AppendUtf8(0x20 + random() % 0xD000, text);
    } else if (dice == 1) {
      AppendUtf8(0x10000 + random() % 0x20000, text);
    } else if (dice == 2) {
      text += std::string(1 + random() % 4, ' ');
    } else {
      // Whole pieces and their ends, so that merges cross what was put together.
      const std::string& piece = pieces[random() % pieces.size()];
      size_t from = random() % 4 == 0 ? random() % piece.size() : 0;
      while ((piece[from] & 0xC0) == 0x80) --from;
      text += piece.substr(from);
    }
  }
  return text;
}

void ExpectSame(const Tokenizer& tokenizer, const SentencePieceOracle& library,
                const std::string& text) {
  const std::vector<int> expected = library.Encode(text);
  const auto ids = tokenizer.Encode(text, /*parse_special=*/false);
  ASSERT_TRUE(ids == expected) << (text.size() < 200 ? text : text.substr(0, 200) + "…");
  ASSERT_TRUE(tokenizer.Decode(ids, /*keep_special=*/false) == library.Decode(expected));
}

class AgainstTheLibrary : public testing::Test {
 protected:
  void SetUp() override {
    FERMATA_SKIP_WITHOUT_CONFORMANCE();
    for (const auto& folder :
         std::filesystem::directory_iterator(*ConformanceDir() / "tokenizers")) {
      const auto path = folder.path() / "tokenizer.model";
      if (std::filesystem::exists(path)) models_.push_back(path);
    }
    ASSERT_FALSE(models_.empty());
  }

  static std::unique_ptr<Tokenizer> Load(const std::filesystem::path& model) {
    const TempDir directory;
    std::filesystem::create_symlink(model, directory.path() / "tokenizer.model");
    return Tokenizer::Load(directory.path(), 1 << 24).value();
  }

  std::vector<std::filesystem::path> models_;
};

TEST_F(AgainstTheLibrary, RandomTextOfPiecesAndOthers) {
  for (const auto& model : models_) {
    const auto tokenizer = Load(model);
    const SentencePieceOracle library(model);
    const auto pieces = library.Pieces();
    std::mt19937 random(4);
    for (int round = 0; round < 4000; ++round) {
      ExpectSame(*tokenizer, library, RandomText(random, pieces, 1 + random() % 100));
    }
    ExpectSame(*tokenizer, library, RandomText(random, pieces, 300'000));
  }
}

TEST_F(AgainstTheLibrary, LinesOfACorpus) {
  const auto corpus = *ConformanceDir() / "../corpus";
  if (!std::filesystem::exists(corpus)) GTEST_SKIP() << "no corpus beside the conformance data";
  for (const auto& model : models_) {
    const auto tokenizer = Load(model);
    const SentencePieceOracle library(model);
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
      if (entry.path().extension() != ".txt") continue;
      std::ifstream file(entry.path());
      std::string line;
      for (size_t size = 0; size < 400'000 && std::getline(file, line); size += line.size()) {
        if (IsUtf8(line)) ExpectSame(*tokenizer, library, line);
      }
    }
  }
}

// Small models of our own, whose scores tie and whose pieces hold characters that are no pieces.
TEST(SentencePieceTest, SmallModelsAsTheLibrary) {
  std::mt19937 random(9);
  const std::vector<std::string> letters = {"a", "b", kMark, "\xC3\xA9", "\xE4\xBD\xA0"};
  for (int table = 0; table < 40; ++table) {
    std::string model = kBpe + kPlainSpaces + kSpecials;
    const bool byte_fallback = table % 3 != 0;
    if (byte_fallback) {
      model += Bytes(2, Number(35, 1));
      for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", byte);
        model += Piece(name, 0, kByteToken);
      }
    }
    std::vector<std::string> pieces;
    while (pieces.size() < 25) {
      std::string piece;
      for (size_t i = 1 + random() % 4; i > 0; --i) piece += letters[random() % letters.size()];
      if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) continue;
      const bool user_defined = table % 4 == 1 && pieces.size() < 2;
      model += Piece(piece, -static_cast<float>(random() % 12),
                     user_defined ? kUserDefinedToken : kNormalToken);
      pieces.push_back(piece);
    }
    const TempDir directory;
    directory.Write("tokenizer.model", model);
    const auto tokenizer = Tokenizer::Load(directory.path(), 1 << 24);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const SentencePieceOracle library(directory.path() / "tokenizer.model");
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t i = random() % 40; i > 0; --i) {
        text += random() % 5 == 0 ? " " : letters[random() % letters.size()];
      }
      ASSERT_EQ((*tokenizer)->Encode(text, false), library.Encode(text)) << table << ": " << text;
    }
  }
}

TEST(SentencePieceTest, ContinuationsHaveNoPrefix) {
  const TempDir directory;
  directory.Write("tokenizer.model", kBpe + kPlainSpaces + kSpecials + Piece("a", -2) +
                                         Piece(kMark, -3) + Piece(kMark + "a", -1));
  const auto tokenizer = Tokenizer::Load(directory.path(), 100).value();
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_THAT(tokenizer->start_ids(), ElementsAre(1));
  EXPECT_THAT(tokenizer->Encode("a a", false), ElementsAre(5, 5));
  EXPECT_THAT(tokenizer->Encode("a a", false, TextPlace::kContinuation), ElementsAre(3, 5));
  EXPECT_THAT(tokenizer->Encode(" a", false, TextPlace::kContinuation), ElementsAre(5));
  EXPECT_THAT(tokenizer->Encode("", false), ElementsAre());
  // After a special token a text starts anew.
  EXPECT_THAT(tokenizer->Encode("a</s>a", true, TextPlace::kContinuation), ElementsAre(3, 2, 5));
  EXPECT_EQ(tokenizer->Decode({5, 5}, false), "a a");
  EXPECT_EQ(tokenizer->Decode({5, 5}, false, TextPlace::kContinuation), " a a");
  EXPECT_EQ(tokenizer->Decode({1, 5}, false), "a");
  EXPECT_EQ(tokenizer->Decode({3, 5}, false), "a a");
}

TEST(SentencePieceTest, BytesRoundTripWhereTheyHavePieces) {
  std::string model = kBpe + kPlainSpaces + kSpecials + Piece(kMark, -1) + Piece("a", -2);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", byte);
    model += Piece(name, 0, kByteToken);
  }
  const TempDir directory;
  directory.Write("tokenizer.model", model);
  const auto tokenizer = Tokenizer::Load(directory.path(), 1000).value();
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 20; i > 0; --i) {
      text += random() % 2 == 0 ? static_cast<char>(random()) : "a \xE2\x82\xAC"[random() % 5];
    }
    std::string joined;
    for (const int32_t id : tokenizer->Encode(text, false, TextPlace::kContinuation)) {
      joined += tokenizer->TokenBytes(id);
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(SentencePieceTest, BrokenModelsAreErrorsThatSayWhere) {
  const std::string good = kBpe + kPlainSpaces + kSpecials + Piece("a", 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "f: has no pieces"},
      {kBpe, "f: has no pieces"},
      {"version https://git-lfs", "f: is not a SentencePiece model, or cut short"},
      {good + "\x0A\x7F", "f: is not a SentencePiece model, or cut short"},
      {kSpecials + Bytes(1, "\x0A\x05"), "f: pieces[3]: is broken"},
      {kSpecials + Piece("", 0), "f: pieces[3]: is broken"},
      {kSpecials + Piece("a", 0, 7), "f: pieces[3]: is broken"},
      {good + Bytes(2, "\x07"), "f: trainer_spec: is broken"},
      {good + Bytes(3, "\x07"), "f: normalizer_spec: is broken"},
      {kSpecials + kPlainSpaces, "f: trainer_spec.model_type: only BPE is supported"},
      {good + Bytes(2, Number(24, 1)),
       "f: trainer_spec.treat_whitespace_as_suffix: is not supported"},
      {good + Bytes(3, Bytes(2, "map")),
       "f: normalizer_spec.precompiled_charsmap: is not supported"},
      {kBpe + kSpecials, "f: normalizer_spec.remove_extra_whitespaces: is not supported"},
      {good + Bytes(3, Number(5, 0)), "f: normalizer_spec.escape_whitespaces: must be set"},
      {good + Piece("b", 0, kUnusedToken), "f: pieces: unused ones are not supported"},
  };
  for (const auto& [bytes, error] : cases) {
    const auto data = ReadSentencePieceModel(bytes, "f");
    ASSERT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(data.status().message(), error);
  }
  EXPECT_TRUE(ReadSentencePieceModel(good, "f").ok());
  for (size_t size = 0; size < good.size(); ++size) {
    ReadSentencePieceModel(good.substr(0, size), "f").IgnoreError();
  }
}

}  // namespace
}  // namespace fermata
