#ifndef FERMATA_ENGINE_KERNELS_CHUNK_DECAY_H_
#define FERMATA_ENGINE_KERNELS_CHUNK_DECAY_H_

#include <cstdint>

#include "engine/kernels/decays.h"

namespace fermata {

// What the chunkwise forms of the decay rule and the delta rule share: how the rows of a chunk look
// back at the keys before them, which decay on the way. Of row x_t and key y_s,
//
//   score(t, s) = Σ_i x_ti y_si Π_{s<j≤t} w_ji
//
// and a row that looks at the state as it was before its token sees the product up to t-1. Nothing
// is ever divided by a decay: all products are of numbers in [0, 1], so none overflows, and one that
// underflows to 0 is of what has been forgotten.

// Tokens of a chunk, rounded up to whole blocks of 16: the length of a row that has an entry for
// each of them.
inline int64_t PaddedTokens(int64_t count) { return (count + 15) / 16 * 16; }

// Rows that look back, and where their scores go.
struct Readers {
  const float* x = nullptr;  // [count, key_dim], or null for none.
  int64_t stride = 0;
  float* scores = nullptr;  // [count, PaddedTokens(count)], 0 for what a row does not see.
};

// The keys of a chunk, and all that looks at them.
struct ScoredKeys {
  const float* y = nullptr;  // [count, key_dim]
  int64_t stride = 0;
  Readers before;  // Row t sees the keys s < t, decayed up to t-1.
  Readers after;   // Row t sees the keys s ≤ t, decayed up to t.
  // Becomes yᵀ [key_dim, PaddedTokens(count)], every key decayed up to the end of the chunk.
  float* keys = nullptr;
};

// The decays of one chunk.
class ChunkDecay {
 public:
  // `scratch` holds ScratchFloats(count, key_dim) floats for as long as this lives.
  ChunkDecay(const Decays& decays, int64_t count, int64_t key_dim, float* scratch);
  static int64_t ScratchFloats(int64_t count, int64_t key_dim);

  void Score(const ScoredKeys& keys) const;

  // out [count, key_dim] = the rows of x, decayed from the start of the chunk up to their token, or
  // to the one before: what multiplies the state that the chunk began with.
  void DecayReaders(const float* x, int64_t stride, bool before, float* out) const;

  // S [key_dim, value_dim] decayed from the start of the chunk to its end.
  void DecayState(float* S, int64_t value_dim) const;

 private:
  void Prepare();
  void ScoreShared(const Readers& readers, bool before, const float* keys) const;
  void ScoreOwnBlock(const ScoredKeys& keys, int64_t begin, int64_t end) const;
  void ScoreEarlierBlocks(const Readers& readers, bool before, const float* keys, int64_t begin,
                          int64_t end) const;
  // What decays that the channels share come to from the first token up to token t; 1 for t = -1.
  float Prefix(int64_t t) const;
  // The same per channel, from the first token of t's block.
  float* BlockPrefix(int64_t t) const { return products_ + t * key_dim_; }

  Decays decays_;
  int64_t count_;
  int64_t key_dim_;
  int64_t padded_;
  float* products_;  // [count, padded], Π_{s<j≤t} w_j at [t, s ≤ t]; or BlockPrefix of every t.
  float* rows_;      // [16, key_dim]
};

// c [count, columns] += scores · b, where row t of scores [count, PaddedTokens(count)] is 0 beyond
// t.
struct TriangularProduct {
  const float* scores = nullptr;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t count = 0;
  int64_t columns = 0;
};
void MultiplyTriangular(const TriangularProduct& product);

// x [count, columns] = the solution of x = x + scores · x, given x as the addend on the right and
// scores that are 0 on the diagonal too: forward substitution.
void SolveTriangular(const float* scores, int64_t count, float* x, int64_t columns);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_CHUNK_DECAY_H_
