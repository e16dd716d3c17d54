#ifndef FERMATA_ENGINE_TOKENIZER_BYTE_BPE_H_
#define FERMATA_ENGINE_TOKENIZER_BYTE_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/bpe_merges.h"
#include "engine/tokenizer/bpe_model.h"

namespace fermata {

// Byte pair encoding over bytes, whose tokens are spelled in the byte-level alphabet: GPT-2,
// GPT-NeoX, Llama 3, Qwen.
class ByteBpe : public BpeModel {
 public:
  // Every byte that stands in UTF-8 must have a token, so that all text can be encoded; no merge
  // may end in a special token, so that no text turns into one by itself. Nothing is unknown then:
  // the tables' unknown token and byte_fallback have nothing to act on.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(const BpeTables& tables);

  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;
  // Merges as in words. A byte that has no token becomes U+FFFD: published vocabularies often lack
  // the thirteen that UTF-8 never has (C0, C1, F5 to FF).
  void EncodeInvalid(std::string_view bytes, std::vector<int32_t>& ids) const override;
  std::string BytesOf(std::string_view token) const override;

 private:
  absl::Status FindBytes(const BpeTables& tables);
  absl::Status AddMerges(const BpeTables& tables);
  void FindWholeWords(const BpeTables& tables);
  bool Encodable(std::string_view bytes) const;
  void ApplyMerges(std::string_view word, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_{};  // -1: none.
  BpeMerges merges_;
  // The words that are one token: those that their merges turn into one, or, with ignore_merges,
  // all tokens. Most words of a text are found here.
  absl::flat_hash_map<std::string, int32_t> whole_words_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BYTE_BPE_H_
