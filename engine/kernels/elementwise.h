#ifndef FERMATA_ENGINE_KERNELS_ELEMENTWISE_H_
#define FERMATA_ENGINE_KERNELS_ELEMENTWISE_H_

#include <cstdint>

namespace fermata {

// Functions of each element alone, for any count ≥ 0 and any alignment. An element's bits depend on
// its inputs alone, not on where it stands or how many there are, and are the same for every
// instruction set with a fused multiply-add (AVX2 and later).
//
// The output may be the same array as an input; otherwise arrays must not overlap. NaN gives NaN.
// Errors are relative to the exact result, down to the smallest normal number; below it results
// may be off by a few denormals.

// y += x, y *= x, y *= factor.
void Add(const float* x, float* y, int64_t count);
void Multiply(const float* x, float* y, int64_t count);
void Scale(float factor, float* y, int64_t count);

// y = factor · x.
void Scale(float factor, const float* x, float* y, int64_t count);

// y += addend.
void Shift(float addend, float* y, int64_t count);

// y += factor · x, fused.
void MultiplyAdd(float factor, const float* x, float* y, int64_t count);

// y = from + share · (to - from), the product fused with the sum.
void Blend(const float* share, const float* from, const float* to, float* y, int64_t count);

// y = e^x, within 2 ulp; +∞ from the largest float on.
void Exp(const float* x, float* y, int64_t count);

// y = e^min(x + addend, limit).
void ExpOfSum(const float* x, float addend, float limit, float* y, int64_t count);

// y = sin x or cos x, within 1e-6 for |x| ≤ 39,000; libm's beyond.
void Sin(const float* x, float* y, int64_t count);
void Cos(const float* x, float* y, int64_t count);

// y = max(x, 0).
void Relu(const float* x, float* y, int64_t count);

// y = max(x, 0)².
void SquaredRelu(const float* x, float* y, int64_t count);

// y = elu(x) + 1 = x + 1 for x > 0, e^x otherwise (Katharopoulos et al. 2020, eq. 7).
void EluPlusOne(const float* x, float* y, int64_t count);

// y = 1 / (1 + e^-x), within 4 ulp also where it is near 0.
void Sigmoid(const float* x, float* y, int64_t count);

// y = x · sigmoid(x), also called swish. NaN at -∞, as the product is.
void Silu(const float* x, float* y, int64_t count);

// out = silu(gate) · up, the middle of a SwiGLU layer.
void SiluMultiply(const float* gate, const float* up, float* out, int64_t count);

// y = tanh x, within 4 ulp.
void Tanh(const float* x, float* y, int64_t count);

// y = log(1 + e^x), within 4 ulp also where it is near 0.
void Softplus(const float* x, float* y, int64_t count);

// y = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), the tanh form of GELU.
void Gelu(const float* x, float* y, int64_t count);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_ELEMENTWISE_H_
