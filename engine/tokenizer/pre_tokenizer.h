#ifndef FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_

#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Where a stretch of text stands among the added tokens of its text.
struct StretchPlace {
  TextPlace text = TextPlace::kStart;  // A stretch behind an added token starts anew.
  bool first = true;                   // Nothing of its text stands before it.
};

// The "pre_tokenizer" of a tokenizer.json, which cuts text into the words that merges do not cross:
//   of a byte-level one, ByteLevel, or a Sequence of Split and Digits that ends in ByteLevel;
//   of one whose pieces have U+2581 for the space, none, Metaspace, or a Sequence that begins with
//   it. What they put before a text is left out of a continuation.
// Immutable and thread-safe.
class PreTokenizer {
 public:
  static absl::StatusOr<PreTokenizer> Parse(const JsonNode& node);
  // GPT-2's cuts (`pattern` empty), or those of a regular expression.
  static absl::StatusOr<PreTokenizer> ByteLevel(std::string_view pattern);

  bool byte_level() const { return byte_level_; }

  // Calls `word` with each word of `text`, in order. `text` must be UTF-8. The views are valid
  // during the call.
  void Split(std::string_view text, StretchPlace place,
             absl::FunctionRef<void(std::string_view)> word) const;

 private:
  // What becomes of the matches of a pattern and of what lies between them.
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };
  enum class Prefix { kNever, kFirst, kAlways };
  struct Step {
    bool metaspace = false;          // Before the cuts: all spaces become U+2581.
    Prefix prefix = Prefix::kNever;  // Then a space (or U+2581) before what does not begin so.
    std::optional<Regex> regex;      // nullopt: cuts nothing.
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // Matches count as what lies between, and the reverse.
  };

  static absl::StatusOr<Step> ParseStep(const JsonNode& node);
  static absl::StatusOr<Step> ParseSplit(const JsonNode& node);
  static absl::StatusOr<Step> ParseMetaspace(const JsonNode& node);
  static absl::StatusOr<Prefix> ParsePrefix(const JsonNode& node);
  static absl::StatusOr<Behavior> ParseBehavior(const JsonNode& node);
  static void Cut(const Step& step, std::string_view text,
                  absl::FunctionRef<void(std::string_view)> piece);
  void Run(size_t step, std::string_view text, StretchPlace place,
           absl::FunctionRef<void(std::string_view)> word) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
