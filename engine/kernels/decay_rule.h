#ifndef FERMATA_ENGINE_KERNELS_DECAY_RULE_H_
#define FERMATA_ENGINE_KERNELS_DECAY_RULE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/kernels/form.h"

namespace fermata {

// A matrix state that decays and takes up outer products, for one head of one sequence over a run
// of tokens:
//
//   S_t = diag(w_t) S_{t-1} + k_t v_tᵀ      z_t = diag(w_t) z_{t-1} + k_t      o_t = S_tᵀ q_t / d_t
//
// where d_t is q_tᵀ z_t kept away from zero, or 1 when there is no z. With a bonus u the token's own
// pair bypasses the state:
//
//   o_t = S_{t-1}ᵀ q_t + (Σ_i q_ti u_i k_ti) v_t
//
// Its special cases, q scaled and q and k through the feature map where there is one:
//   w = 1                        linear attention (Katharopoulos et al. 2020, eqs. 16-20)
//   w constant for a head        retention (Sun et al. 2023, eq. 6)
//   w_t one number a token       the state-space duality of Mamba-2 (Dao and Gu 2024)
//   w_t per channel              GLA (Yang et al. 2023, eq. 3)
//   w constant or w_t, per channel, and u
//                                RWKV-5 and RWKV-6 (Peng et al. 2024, eqs. 4-5 and 17-18)
struct DecayRun {
  int64_t count = 0;      // Tokens.
  int64_t key_dim = 0;    // Length of q and k.
  int64_t value_dim = 0;  // Length of v and o.

  // Rows of one token each, `*_stride` floats apart. o must not overlap the others.
  const float* q = nullptr;
  int64_t q_stride = 0;
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  float* o = nullptr;
  int64_t o_stride = 0;

  // w_t, numbers (not logarithms) in [0, 1]: one for a token, or key_dim when they are per channel.
  // Null: 1, and the arithmetic is then exactly that of a sum. 0 forgets all that was before.
  const float* decay = nullptr;
  int64_t decay_stride = 0;  // 0: the same at every token.
  bool decay_per_channel = false;

  const float* bonus = nullptr;  // u [key_dim], or null for none. Excludes z.

  // The state before the run, which becomes the state after it.
  float* S = nullptr;  // [key_dim, value_dim]
  // The state of the run that is computed next, of the same shape, or null: it is fetched to the cache
  // meanwhile.
  const float* next_S = nullptr;
  float* z = nullptr;  // [key_dim], or null for no normaliser.
};

// The denominator, and whether the rule below had to step in.
struct Denominator {
  float value = 1;
  bool clamped = false;
};

// The rule that keeps the denominator from zero. `sum` is Σ_i q_i z_i and `magnitude` is
// Σ_i |q_i z_i|. To the sum goes the epsilon of the published layer, 1e-10. When what is left is
// smaller than one millionth of the magnitude, cancellation has used up all of float32's digits and
// the sign is noise: the value becomes that millionth (at least 1e-10), with the sign it had.
// Features that are never negative have sum = magnitude, and never come here, but for magnitudes
// that rounding can not tell from zero.
inline Denominator ClampDenominator(float sum, float magnitude) {
  const float value = sum + 1e-10f;
  const float floor = std::max(1e-10f, 1e-6f * magnitude);
  if (std::abs(value) < floor) return {std::copysign(floor, value), true};
  return {value, false};
}

// The run in the form asked for. `position` is that of the run's first token; only the chunkwise
// form, which works in chunks of kChunkTokens, looks at it. Returns how many denominators were
// clamped.
int64_t Compute(const DecayRun& run, int64_t position, Form form);

// The three forms. Each returns how many denominators were clamped.

// Token after token, S updated and read in one pass. A token's bits are the same in a run of any
// length.
int64_t DecayRecurrent(const DecayRun& run);

// Chunks that end where the position is a multiple of `chunk`: within a chunk, masked and decayed
// scores; between chunks, S. `scratch` holds DecayChunkScratch(run, chunk) floats.
int64_t DecayChunkwise(const DecayRun& run, int64_t position, int64_t chunk, float* scratch);
int64_t DecayChunkScratch(const DecayRun& run, int64_t chunk);

// The whole run as attention with decayed scores, in time quadratic in its length. `scratch` holds
// DecayParallelScratch(run) floats.
int64_t DecayParallel(const DecayRun& run, float* scratch);
int64_t DecayParallelScratch(const DecayRun& run);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_DECAY_RULE_H_
