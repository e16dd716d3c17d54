#ifndef FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_
#define FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
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
};

// The "added_tokens" of a tokenizer.json: tokens that are cut out of the text before anything else
// looks at it. The leftmost wins, then the longest. Immutable and thread-safe.
class AddedTokens {
 public:
  static absl::StatusOr<AddedTokens> Parse(const JsonNode& node, const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // A stretch of text, or an added token in it.
  using Piece = absl::FunctionRef<void(std::string_view text, const AddedToken* token)>;

  // Cuts `text` (any bytes) at the added tokens that are sought in it. Special ones count only when
  // `parse_special` is set.
  void Split(std::string_view text, bool normalized, bool parse_special, Piece piece) const;

 private:
  // The contents as a tree of bytes; node 0 is the root.
  struct Trie {
    void Add(std::string_view content, int32_t token);
    absl::flat_hash_map<uint64_t, int32_t> children;  // By node << 8 | byte.
    std::vector<int32_t> token_at = {-1};             // By node: an index into tokens_, or -1.
    std::array<bool, 256> starts{};                   // Bytes that a content begins with.
  };
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    const AddedToken* token = nullptr;  // nullptr: no match.
  };

  Match Find(const Trie& trie, std::string_view text, size_t from, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  Trie raw_;
  Trie normalized_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_ADDED_TOKENS_H_
