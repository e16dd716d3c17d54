#ifndef FERMATA_ENGINE_KERNELS_CONVOLUTION_H_
#define FERMATA_ENGINE_KERNELS_CONVOLUTION_H_

#include <cstdint>

namespace fermata {

// A depthwise causal convolution over the tokens of one sequence:
//   out[t, c] = Σ_j weight[j, c] · x[t - (taps - 1) + j, c]
// where rows before x come from `state`: the last taps - 1 inputs, oldest first, zero at the
// sequence's beginning.
struct CausalConvolution {
  const float* weight = nullptr;  // [taps, dim]; the last row weighs the current token.
  int64_t taps = 0;               // At least 1.
  int64_t dim = 0;
};

// Computes `count` rows of out [count, dim] from x [count, dim], and moves state [taps - 1, dim]
// past them. A row's bits do not depend on count. out must not overlap x.
void Convolve(const CausalConvolution& convolution, const float* x, int64_t count, float* state,
              float* out);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_CONVOLUTION_H_
