#ifndef FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_

#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/regex.h"

namespace fermata {

// The "pre_tokenizer" of a byte-level tokenizer.json, which cuts text into the words that merges do
// not cross: ByteLevel, or a Sequence of Split and Digits that ends in ByteLevel. Immutable and
// thread-safe.
class PreTokenizer {
 public:
  static absl::StatusOr<PreTokenizer> Parse(const JsonNode& node);

  // Calls `word` with each word of `text`, in order. `text` must be UTF-8. The views are valid
  // during the call.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> word) const;

 private:
  // What becomes of the matches of a pattern and of what lies between them.
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };
  struct Step {
    bool add_prefix_space = false;  // Before the cuts: to what does not begin with a space.
    std::optional<Regex> regex;     // nullopt: cuts nothing.
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // Matches count as what lies between, and the reverse.
  };

  static absl::StatusOr<Step> ParseStep(const JsonNode& node);
  static absl::StatusOr<Step> ParseSplit(const JsonNode& node);
  static absl::StatusOr<Behavior> ParseBehavior(const JsonNode& node);
  static void Cut(const Step& step, std::string_view text,
                  absl::FunctionRef<void(std::string_view)> piece);
  void Run(size_t step, std::string_view text,
           absl::FunctionRef<void(std::string_view)> word) const;

  std::vector<Step> steps_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
