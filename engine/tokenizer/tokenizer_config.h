#ifndef FERMATA_ENGINE_TOKENIZER_TOKENIZER_CONFIG_H_
#define FERMATA_ENGINE_TOKENIZER_TOKENIZER_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"

namespace fermata {

// What a tokenizer_config.json says that changes ids; its other fields are for other programs.
struct TokenizerConfig {
  std::optional<bool> add_bos;     // add_bos_token
  std::optional<std::string> bos;  // bos_token, a string or an object with "content".
  std::vector<AddedToken> added;   // added_tokens_decoder

  // Of a file that is not there: nothing. INVALID_ARGUMENT that names file and field when it is
  // broken, or an id is not below `vocab_size`.
  static absl::StatusOr<TokenizerConfig> Load(const std::string& path, int64_t vocab_size);
  static absl::StatusOr<TokenizerConfig> Parse(std::string_view text, const std::string& source,
                                               int64_t vocab_size);
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_TOKENIZER_CONFIG_H_
