#ifndef FERMATA_ENGINE_LAYERS_TOKEN_SHIFT_H_
#define FERMATA_ENGINE_LAYERS_TOKEN_SHIFT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/arena.h"
#include "engine/layers/sequence.h"

namespace fermata {

// RWKV's view of the token before (Peng et al., "RWKV: Reinventing RNNs for the Transformer Era",
// section 3.1.1). Its state is the last input; the token before the first is zero.
class TokenShift {
 public:
  TokenShift() = default;
  // Adds `state`, [dim], to the layout.
  TokenShift(int64_t dim, std::string state, StateLayout& layout);

  // δ [rows, dim] with δ_t = x_{t-1} - x_t, in scratch memory. Moves the sequences' states.
  float* Delta(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
               Arena& arena) const;

  // x + μ ∘ δ of all rows for each of `mus` [dim], in scratch memory. Moves the sequences' states.
  template <size_t kCount>
  std::array<float*, kCount> Mix(std::span<const SequenceRows> sequences, const float* x,
                                 int64_t rows, const std::array<const float*, kCount>& mus,
                                 Arena& arena) const {
    std::array<float*, kCount> mixed;
    for (float*& each : mixed) each = arena.Floats(rows * dim_);
    MixInto(sequences, x, rows, mus, mixed);
    return mixed;
  }

 private:
  void MixInto(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
               std::span<const float* const> mus, std::span<float* const> mixed) const;

  int64_t dim_ = 0;
  int64_t state_offset_ = 0;
};

// x + μ ∘ δ for each row of x and δ [rows, dim], with μ [dim], in scratch memory: the token where μ
// is 0, the one before where it is 1.
float* Interpolate(const float* x, const float* delta, const float* mu, int64_t rows, int64_t dim,
                   Arena& arena);

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_TOKEN_SHIFT_H_
