#ifndef FERMATA_ENGINE_KERNELS_LINEAR_ATTENTION_H_
#define FERMATA_ENGINE_KERNELS_LINEAR_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fermata {

// Linear attention with a constant decay, for one head of one sequence over a run of tokens
// (Katharopoulos et al., "Transformers are RNNs", eqs. 16-20; the decay is Sun et al., "Retentive
// Network", eq. 6):
//
//   S_t = γ S_{t-1} + k_t v_tᵀ      z_t = γ z_{t-1} + k_t      o_t = S_tᵀ q_t / d_t
//
// where q and k have been through the feature map and q is scaled, and d_t is q_tᵀ z_t kept away
// from zero, or 1 when there is no z. γ = 1 is linear attention as published; the arithmetic is
// then exactly that of a sum.
struct LinearAttentionRun {
  int64_t count = 0;        // Tokens.
  int64_t feature_dim = 0;  // Length of q and k.
  int64_t value_dim = 0;    // Length of v and o.
  float decay = 1;          // γ, in (0, 1].

  // Rows of one token each, `*_stride` floats apart. o must not overlap the others.
  const float* q = nullptr;
  int64_t q_stride = 0;
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  float* o = nullptr;
  int64_t o_stride = 0;

  // The state before the run, which becomes the state after it.
  float* S = nullptr;  // [feature_dim, value_dim]
  float* z = nullptr;  // [feature_dim], or null for no normaliser.
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

// The three forms. Each returns how many denominators were clamped.

// Token after token, S updated and read in one pass. A token's bits are the same in a run of any
// length.
int64_t LinearAttentionRecurrent(const LinearAttentionRun& run);

// Chunks that end where the position is a multiple of `chunk`: within a chunk, masked and decayed
// scores; between chunks, S. `position` is that of the run's first token. `scratch` holds
// LinearAttentionChunkScratch(run, chunk) floats.
int64_t LinearAttentionChunkwise(const LinearAttentionRun& run, int64_t position, int64_t chunk,
                                 float* scratch);
int64_t LinearAttentionChunkScratch(const LinearAttentionRun& run, int64_t chunk);

// The whole run as attention with decayed scores, in time quadratic in its length. `scratch` holds
// LinearAttentionParallelScratch(run) floats.
int64_t LinearAttentionParallel(const LinearAttentionRun& run, float* scratch);
int64_t LinearAttentionParallelScratch(const LinearAttentionRun& run);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_LINEAR_ATTENTION_H_
