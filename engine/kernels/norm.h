#ifndef FERMATA_ENGINE_KERNELS_NORM_H_
#define FERMATA_ENGINE_KERNELS_NORM_H_

#include <cstdint>

namespace fermata {

// Functions of whole rows. Sums run in an order that depends on the length of the row alone (16
// partial sums, then a tree), so their bits are the same for every instruction set with a fused
// multiply-add (AVX2 and later), every alignment and every number of rows.

// Σ a[i] · b[i] and Σ x[i].
float Dot(const float* a, const float* b, int64_t count);
float Sum(const float* x, int64_t count);

// out [rows, dim]: each row x / √(mean(x²) + eps) · weight. `weight` [dim], or null for ones. `out`
// may be x.
void RmsNorm(const float* x, const float* weight, int64_t rows, int64_t dim, float eps, float* out);

// out [rows, dim]: each row (x - mean) / √(variance + eps) · weight + bias, with the variance of
// the row as a population. `weight` and `bias` [dim], each may be null. `out` may be x.
void LayerNorm(const float* x, const float* weight, const float* bias, int64_t rows, int64_t dim,
               float eps, float* out);

// out [rows, dim]: each row x / √(Σ x² + eps). `out` may be x.
void L2Norm(const float* x, int64_t rows, int64_t dim, float eps, float* out);

// out [rows, dim]: each row x / max(√(Σ x²), floor): of length 1, or zero. `out` may be x.
void UnitNorm(const float* x, int64_t rows, int64_t dim, float floor, float* out);

// Each row of x [rows, dim], in place, to e^x / Σ e^x, with the row's maximum taken off first: no
// finite row overflows. -∞ gives 0 where the row has a finite element.
void Softmax(float* x, int64_t rows, int64_t dim);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_NORM_H_
