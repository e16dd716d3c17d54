#ifndef FERMATA_ENGINE_KERNELS_MATMUL_ROWS_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_ROWS_H_

#include <cstdint>

namespace fermata {

// The rows of a product's left side, made narrow. The same bits on every processor.

// `x` rounded to the nearest bfloat16, ties to even; NaN stays NaN.
void RoundToBf16(const float* x, int64_t count, uint16_t* out);

// Numbers smaller than this count as zeros where scales are chosen: theirs would be denormal.
inline constexpr float kLeastMagnitude = 0x1p-100f;

// x[i] ≈ scale · quants[i], with the quants of the greatest |x| ±127. A scale is NaN, its quants 0,
// where a number is NaN or infinite, and 0 where all are below kLeastMagnitude.

// One scale for all. quants[i] is stored as quants[i] + 128 in an unsigned byte; there are `padded`
// ≥ count of them, the rest zeros (128). Returns the scale.
float QuantizeRow(const float* x, int64_t count, int64_t padded, uint8_t* quants);

inline constexpr int64_t kGroup = 32;

// A scale for each kGroup numbers; the last group is filled up with zeros. sums[g] is the sum of
// the group's quants.
void QuantizeGroups(const float* x, int64_t count, int8_t* quants, float* scales, int32_t* sums);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_ROWS_H_
