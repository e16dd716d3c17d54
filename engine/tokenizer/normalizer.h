#ifndef FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_
#define FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// The "normalizer" of a tokenizer.json: null, NFC, NFD, NFKC, NFKD (Unicode annex 15), Replace (of a
// string), Prepend, or a Sequence of these. Immutable and thread-safe.
class Normalizer {
 public:
  static absl::StatusOr<Normalizer> Parse(const JsonNode& node);

  // SentencePiece's own: a space in front of a sequence's text when `prefix` is set, then U+2581 for
  // all spaces.
  static Normalizer SentencePiece(bool prefix);

  // Whether it changes no text.
  bool empty() const { return steps_.empty(); }
  // `text` must be UTF-8; so is the result. Nothing is prepended to an empty text, nor to one that
  // is a continuation. Takes O(n log n), also for long runs of marks.
  std::string Normalize(std::string_view text, TextPlace place) const;

 private:
  enum class Kind { kForm, kReplace, kPrepend };
  struct Step {
    Kind kind = Kind::kForm;
    int form = 0;         // kForm: utf8proc's options.
    std::string pattern;  // kReplace: what is replaced,
    std::string content;  // and by what. kPrepend: what is prepended.
  };

  static absl::StatusOr<Step> ParseStep(const JsonNode& node);

  std::vector<Step> steps_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_
