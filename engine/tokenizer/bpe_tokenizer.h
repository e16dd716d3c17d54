#ifndef FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe_model.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Byte pair encoding with what stands around it: byte-level (GPT-2, GPT-NeoX, Llama 3, Qwen) or over
// characters with byte fallback (SentencePiece, Llama 2, Mistral). The ids are those of the
// `tokenizers` library, with three rules of our own:
//
// - A post-processor's template adds nothing: a BOS that a model wants is in start_ids(), and the
//   caller's to put in.
// - What is prepended to a text (a space) is left out of a continuation. After an added token, which
//   is a new start, it is prepended as the file says.
// - Bytes that are not UTF-8, which that library does not take, are cut out: each run of them is a
//   word by itself, neither normalised nor pre-tokenised, and what stands behind it goes on. A byte
//   that has no token (byte-level vocabularies leave out C0, C1 and F5 to FF, which UTF-8 never has)
//   becomes U+FFFD or the unknown token. Without a normaliser and a prefix space, all text
//   round-trips, and all bytes do where each has a token.
//
// An added token stands for its content, taken literally.
class BpeTokenizer : public Tokenizer {
 public:
  // From a tokenizer.json, whose ids must be below `vocab_size`. `source` names the file in errors:
  // INVALID_ARGUMENT with the JSON path of what is broken or of a kind that is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view json, std::string source,
                                                          int64_t vocab_size = kMaxTokenId + 1);

  struct Parts {
    std::string kind = "bpe";
    Normalizer normalizer;
    std::vector<AddedToken> added;
    PreTokenizer pre_tokenizer;
    std::unique_ptr<BpeModel> model;
    // By id, in the spelling of their file; empty for ids that have none. Added tokens may stand in
    // it too.
    std::vector<std::string> tokens;
    bool strips_space_at_start = false;
    std::vector<int32_t> start_ids;
  };
  explicit BpeTokenizer(Parts parts);

  std::string_view kind() const override { return kind_; }
  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;
  bool StripsSpaceAtStart() const override { return strips_space_at_start_; }

 private:
  std::vector<int32_t> DoEncode(std::string_view text, bool parse_special,
                                TextPlace place) const override;
  // `text` has no added tokens that are sought before normalisation.
  void EncodeBytes(std::string_view text, StretchPlace place, bool parse_special,
                   std::vector<int32_t>& ids) const;
  void EncodeUtf8(std::string_view text, StretchPlace place, bool parse_special,
                  std::vector<int32_t>& ids) const;

  std::string kind_;
  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
  bool strips_space_at_start_ = false;
  std::vector<std::string> token_bytes_;  // By id.
  std::vector<bool> special_;             // By id.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_
