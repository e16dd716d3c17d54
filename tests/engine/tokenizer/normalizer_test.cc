#include "engine/tokenizer/normalizer.h"

#include <cstdlib>
#include <random>
#include <string>

#include "engine/base/utf8.h"
#include "gtest/gtest.h"
#include "utf8proc.h"

namespace fermata {
namespace {

Normalizer Make(const nlohmann::json& json) {
  return Normalizer::Parse(JsonNode(json, "n")).value();
}

std::string Apply(const std::string& form, const std::string& text) {
  return Make({{"type", form}}).Normalize(text, TextPlace::kStart);
}

// Unicode annex 15, figures 3 to 6, and the composition of Hangul.
TEST(NormalizerTest, FormsAsTheStandardShows) {
  EXPECT_EQ(Apply("NFD", "\u212B"), "A\u030A");
  EXPECT_EQ(Apply("NFC", "\u212B"), "\u00C5");
  EXPECT_EQ(Apply("NFC", "\u2126"), "\u03A9");
  EXPECT_EQ(Apply("NFC", "d\u0307\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(Apply("NFD", "\u1E0B\u0323"), "d\u0323\u0307");
  EXPECT_EQ(Apply("NFC", "\uFB01"), "\uFB01");
  EXPECT_EQ(Apply("NFKC", "\uFB01"), "fi");
  EXPECT_EQ(Apply("NFKD", "2\u2075"), "25");
  EXPECT_EQ(Apply("NFKC", "\u1E9B\u0323"), "\u1E69");
  EXPECT_EQ(Apply("NFKD", "\u1E9B\u0323"), "s\u0323\u0307");
  EXPECT_EQ(Apply("NFC", "\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(Apply("NFC", "\uFFFE\uFDD0"), "\uFFFE\uFDD0");
}

TEST(NormalizerTest, NullAndSequence) {
  EXPECT_EQ(Make(nullptr).Normalize("e\u0301", TextPlace::kStart), "e\u0301");
  EXPECT_EQ(Make({{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}, {{"type", "NFD"}}}}})
                .Normalize("\uFB01\u00E9", TextPlace::kStart),
            "fie\u0301");
}

// Against utf8proc's own way through the same tables.
TEST(NormalizerTest, AgreesWithUtf8procOnRandomText) {
  std::mt19937 random(2);
  const std::vector<std::pair<std::string, int>> forms = {
      {"NFC", UTF8PROC_COMPOSE},
      {"NFD", UTF8PROC_DECOMPOSE},
      {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
      {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 10; ++i) {
      const char32_t blocks[] = {0x20, 0xC0, 0x300, 0x300, 0x1E00, 0x1100, 0xAC00, 0xFB00, 0x3040};
      AppendUtf8(blocks[random() % 9] + random() % 96, text);
    }
    const auto& [form, options] = forms[round % 4];
    utf8proc_uint8_t* expected = nullptr;
    const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &expected,
                                     static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
    ASSERT_GE(length, 0);
    ASSERT_EQ(Apply(form, text),
              std::string(reinterpret_cast<char*>(expected), static_cast<size_t>(length)));
    std::free(expected);
  }
}

// Neighbour swaps would take 10^11 steps here.
TEST(NormalizerTest, LongRunsOfMarksAreSorted) {
  std::string text = "a";
  std::string above;
  std::string below;
  for (int i = 0; i < 500'000; ++i) {
    text += "\u0301\u0316";
    above += "\u0301";
    below += "\u0316";
  }
  EXPECT_TRUE(Apply("NFD", text) == "a" + below + above);
}

}  // namespace
}  // namespace fermata
