#ifndef FERMATA_ENGINE_TOKENIZER_RWKV_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_RWKV_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/byte_trie.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// The tokenizer of the RWKV World models: at each point the longest token that the text goes on
// with (BlinkDL/ChatRWKV, rwkv_tokenizer.py). Every byte has a token, so all bytes round-trip. Id 0
// ends a text; it stands for none, unless an added token gives it one.
class RwkvTokenizer : public Tokenizer {
 public:
  // A published vocabulary: lines of an id, a Python literal, and its length in bytes. `source`
  // names the file in errors, which say the line. Ids must be below `vocab_size`.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view text,
                                                          const std::string& source,
                                                          int64_t vocab_size,
                                                          std::vector<AddedToken> added);

  // The tokens' bytes by id, empty for ids that have none. Errors begin with `source`.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(std::vector<std::string> tokens,
                                                           std::vector<AddedToken> added,
                                                           const std::string& source);

  // Whether the first line of a file looks like a vocabulary of this kind.
  static bool LooksRight(std::string_view text);

  std::string_view kind() const override { return "rwkv"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;

 private:
  RwkvTokenizer(std::vector<std::string> tokens, std::vector<AddedToken> added);
  std::vector<int32_t> DoEncode(std::string_view text, bool parse_special,
                                TextPlace place) const override;

  std::vector<std::string> tokens_;  // By id.
  std::vector<bool> special_;        // By id.
  ByteTrie trie_;
  AddedTokens added_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_RWKV_TOKENIZER_H_
