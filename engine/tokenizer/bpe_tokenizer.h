#ifndef FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Byte-level BPE from a Hugging Face tokenizer.json: GPT-2, GPT-NeoX, Llama 3, Qwen and their like.
// The ids are those of the `tokenizers` library, with two rules of our own:
//
// - A post-processor's template adds nothing: a BOS that a model wants is the caller's to put in.
// - Bytes that are not UTF-8, which that library does not take, are cut out: each run of them is a
//   word by itself, neither normalised nor pre-tokenised, and what stands between two runs is a
//   text of its own. A byte that has no token (published vocabularies leave out C0, C1 and F5 to
//   FF, which UTF-8 never has) becomes U+FFFD. Without a normaliser and a prefix space, all text
//   round-trips, and all bytes do where each has a token.
//
// An added token stands for its content, taken literally.
class BpeTokenizer : public Tokenizer {
 public:
  // `source` names the file in errors: INVALID_ARGUMENT with the JSON path of what is broken or of
  // a kind that is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view json,
                                                          std::string source);

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(token_bytes_.size()); }
  std::vector<int32_t> Encode(std::string_view text, bool parse_special) const override;
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;

 private:
  BpeTokenizer(Normalizer normalizer, AddedTokens added, PreTokenizer pre_tokenizer, Bpe bpe);

  // `text` has no added tokens that are sought before normalisation.
  void EncodeBytes(std::string_view text, bool parse_special, std::vector<int32_t>& ids) const;
  void EncodeUtf8(std::string_view text, bool parse_special, std::vector<int32_t>& ids) const;

  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  std::vector<std::string> token_bytes_;  // By id.
  std::vector<bool> special_;             // By id.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BPE_TOKENIZER_H_
