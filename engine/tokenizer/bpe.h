#ifndef FERMATA_ENGINE_TOKENIZER_BPE_H_
#define FERMATA_ENGINE_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"

namespace fermata {

// The "model" of a byte-level tokenizer.json: byte pair encoding (Sennrich et al.,
// arXiv:1508.07909) over bytes. Immutable and thread-safe.
class Bpe {
 public:
  // Every byte that stands in UTF-8 must have a token, so that all text can be encoded; no merge
  // may end in one of `special` (ids by token), so that no text turns into a special token by
  // itself.
  static absl::StatusOr<Bpe> Parse(const JsonNode& node,
                                   const absl::flat_hash_map<std::string, int32_t>& special);

  // `bytes`, those that have no token replaced by U+FFFD. Published vocabularies often lack the
  // thirteen that UTF-8 never has (C0, C1, F5 to FF).
  std::string Encodable(std::string_view bytes) const;

  // Appends the ids of `word`, which must be UTF-8 or from Encodable, and of less than 2 GiB. Takes
  // O(n log n).
  void Encode(std::string_view word, std::vector<int32_t>& ids) const;

  // Id by token, in the file's spelling.
  const absl::flat_hash_map<std::string, int32_t>& vocab() const { return vocab_; }

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t id = 0;
  };

  absl::Status ParseVocab(const JsonNode& node);
  absl::Status ParseBytes(const JsonNode& vocab);
  absl::Status ParseMerges(const JsonNode& node);
  void FindWholeWords(bool ignore_merges, const absl::flat_hash_map<std::string, int32_t>& special);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void ApplyMerges(std::string_view word, std::vector<int32_t>& ids) const;

  absl::flat_hash_map<std::string, int32_t> vocab_;
  std::array<int32_t, 256> byte_ids_{};          // -1: none.
  absl::flat_hash_map<uint64_t, Merge> merges_;  // By left id << 32 | right id.
  // The words that are one token: those that their merges turn into one, or, with ignore_merges,
  // all tokens. Most words of a text are found here.
  absl::flat_hash_map<std::string, int32_t> whole_words_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BPE_H_
