#include "client/make/vocabulary.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fermata::make {
namespace {

constexpr std::string_view kConsonants = "bdfghklmnprstvz";
constexpr std::string_view kVowels = "aeiou";
constexpr int64_t kSyllables = static_cast<int64_t>(kConsonants.size() * kVowels.size());

// The `number`th word, counted through all of one syllable, then all of two, and so on.
std::string Word(int64_t number) {
  int64_t syllables = 1;
  for (int64_t words = kSyllables; number >= words; words *= kSyllables) {
    number -= words;
    ++syllables;
  }
  std::string word;
  for (; syllables > 0; --syllables, number /= kSyllables) {
    const auto syllable = static_cast<size_t>(number % kSyllables);
    word += kConsonants[syllable % kConsonants.size()];
    word += kVowels[syllable / kConsonants.size()];
  }
  return word;
}

std::string ByteLine(int64_t byte) {
  const std::string_view prefix = byte < 0x80 ? "" : "b";  // Bytes that are no text by themselves.
  return absl::StrFormat("%d %s'\\x%02x' 1\n", byte + 1, std::string(prefix), byte);
}

}  // namespace

std::string MakeVocabulary(int64_t size) {
  std::string text;
  for (int64_t byte = 0; byte < 256; ++byte) text += ByteLine(byte);
  for (int64_t id = kMinVocabulary; id < size; ++id) {
    const int64_t number = id - kMinVocabulary;
    const std::string word = absl::StrCat(number % 2 == 0 ? " " : "", Word(number / 2));
    absl::StrAppend(&text, id, " '", word, "' ", word.size(), "\n");
  }
  return text;
}

}  // namespace fermata::make
