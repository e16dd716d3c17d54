#ifndef FERMATA_ENGINE_TOKENIZER_BPE_MERGES_H_
#define FERMATA_ENGINE_TOKENIZER_BPE_MERGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace fermata {

// The longest word for which a thread keeps its scratch memory, in symbols.
inline constexpr size_t kKeptSymbols = 1 << 16;

// The merges of byte pair encoding (Sennrich et al., arXiv:1508.07909) over symbols, which are
// non-negative numbers. Filled first, then immutable and thread-safe.
class BpeMerges {
 public:
  struct Merge {
    int32_t rank = 0;
    int32_t merged = 0;
  };

  void Reserve(size_t count) { merges_.reserve(count); }
  // Of the merges that a word has, that of the lowest rank comes first, then the leftmost. False,
  // and no change, when the pair has a merge already.
  bool Add(int32_t left, int32_t right, Merge merge);

  // Merges `symbols`, which must be fewer than 2^31, until there is nothing more to merge. Takes
  // O(n log n).
  void Apply(std::vector<int32_t>& symbols) const;

 private:
  const Merge* Find(int32_t left, int32_t right) const;
  void ApplyToShort(std::vector<int32_t>& symbols) const;
  void ApplyToLong(std::vector<int32_t>& symbols) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // By left << 32 | right.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BPE_MERGES_H_
