#ifndef FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_
#define FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/byte_trie.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/normalizer.h"

namespace fermata {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // Only where no word character stands before or after it.
  bool lstrip = false;       // Takes the white space before it along,
  bool rstrip = false;       // and behind it.
  bool normalized = false;   // Sought in the normalised text, else in the text as it is.
  std::string sought;        // If not the content: what stands for it in the normalised text.
};

// The "added_tokens" of a tokenizer.json: tokens that are cut out of the text before anything else
// looks at it. The leftmost wins, then the longest. Immutable and thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;
  // The contents must not be empty. Of equal contents the first counts.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // The list in the file, checked: no id and no content stands twice.
  static absl::StatusOr<std::vector<AddedToken>> Parse(const JsonNode& node);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // A stretch of text, or an added token in it.
  using Piece = absl::FunctionRef<void(std::string_view text, const AddedToken* token)>;

  // Cuts `text` (any bytes) at the added tokens that are sought in it. Special ones count only when
  // `parse_special` is set.
  void Split(std::string_view text, bool normalized, bool parse_special, Piece piece) const;

 private:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    const AddedToken* token = nullptr;  // nullptr: no match.
  };

  Match Find(const ByteTrie& trie, std::string_view text, size_t from, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  ByteTrie raw_;  // Values are indices into tokens_.
  ByteTrie normalized_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_
