#ifndef FERMATA_ENGINE_KERNELS_DELTA_RULE_H_
#define FERMATA_ENGINE_KERNELS_DELTA_RULE_H_

#include <cstdint>

#include "engine/kernels/form.h"

namespace fermata {

// A matrix state that is read before it is written, so that a token can take out what is stored
// under its key, for one head of one sequence over a run of tokens:
//
//   u_t = S_{t-1}ᵀ a_t      S_t = diag(w_t) S_{t-1} + b_t u_tᵀ + k_t v_tᵀ      o_t = S_tᵀ q_t
//
// Without b, b_t = -k_t: S_t = diag(w_t) S_{t-1} + k_t (v_t - u_t)ᵀ. Its special cases, q scaled:
//   DeltaNet (Yang et al. 2024, eq. 4)            k = β k̂, a = k̂, w = 1, no b
//   Gated DeltaNet (Yang et al. 2024, eq. 10)     k = β k̂, a = α k̂, w = α, no b
//   RWKV-7 (Peng et al. 2025, eq. 15)             a = -κ̂, b = η ⊙ κ̂, w per channel
struct DeltaRun {
  int64_t count = 0;      // Tokens.
  int64_t key_dim = 0;    // Length of q, k, a and b.
  int64_t value_dim = 0;  // Length of v and o.

  // Rows of one token each, `*_stride` floats apart. o must not overlap the others.
  const float* q = nullptr;
  int64_t q_stride = 0;
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;  // Null: -k.
  int64_t b_stride = 0;
  float* o = nullptr;
  int64_t o_stride = 0;

  // w_t, numbers (not logarithms) in [0, 1]: one for a token, or key_dim when they are per channel.
  // Null: 1.
  const float* decay = nullptr;
  int64_t decay_stride = 0;  // 0: the same at every token.
  bool decay_per_channel = false;

  // The state before the run, which becomes the state after it.
  float* S = nullptr;  // [key_dim, value_dim]
  // The state of the run that is computed next, of the same shape, or null: it is fetched to the cache
  // meanwhile.
  const float* next_S = nullptr;
};

// The run in the form asked for. `position` is that of the run's first token; only the chunkwise
// form, which works in chunks of kChunkTokens, looks at it. Returns 0: there are no denominators to
// clamp.
int64_t Compute(const DeltaRun& run, int64_t position, Form form);

// The three forms.

// Token after token: one pass over S for u, one that updates and reads it. A token's bits are the
// same in a run of any length.
void DeltaRecurrent(const DeltaRun& run);

// Chunks that end where the position is a multiple of `chunk`. Within a chunk u depends on the u of
// earlier tokens: a triangular system of decayed scores, solved by forward substitution (Yang et al.
// 2024, section 3; the WY form of the product of the transitions). Between chunks, S. `scratch`
// holds DeltaChunkScratch(run, chunk) floats.
void DeltaChunkwise(const DeltaRun& run, int64_t position, int64_t chunk, float* scratch);
int64_t DeltaChunkScratch(const DeltaRun& run, int64_t chunk);

// The same system for the whole run at once, in time quadratic in its length. `scratch` holds
// DeltaParallelScratch(run) floats.
void DeltaParallel(const DeltaRun& run, float* scratch);
int64_t DeltaParallelScratch(const DeltaRun& run);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_DELTA_RULE_H_
