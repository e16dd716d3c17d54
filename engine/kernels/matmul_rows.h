#ifndef FERMATA_ENGINE_KERNELS_MATMUL_ROWS_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace fermata {

// The rows of a product's left side, made narrow. The same bits on every processor.

// What products take.
enum class RowFormat {
  kFloat,   // x itself.
  kBf16,    // RoundToBf16, filled up with zeros to kRowMultiple bytes.
  kInt8,    // QuantizeRow, filled up likewise.
  kGroups,  // QuantizeGroups.
};
inline constexpr int64_t kRowMultiple = 64;

// Some rows of x [rows, features], in a format.
class NarrowRows {
 public:
  NarrowRows(RowFormat format, const float* x, int64_t rows, int64_t features);

  bool operator==(const NarrowRows& other) const;

  // Memory that they need, a multiple of a cache line, and where it is. What the pointers below say
  // is there once Fill has been called for each row.
  int64_t bytes() const;
  void Place(std::byte* memory);
  void Fill(int64_t row) const;
  // What Fill is worth in multiply-adds of float32; 0 where it has nothing to do.
  int64_t fill_work() const;

  int64_t rows() const { return rows_; }
  int64_t stride() const { return stride_; }  // Of numbers, in bytes.
  const uint8_t* numbers(int64_t row) const { return numbers_ + row * stride_; }
  const float* floats(int64_t row) const { return x_ + row * features_; }
  // One for a row with kInt8, with kGroups one for each group of a row, as are sums.
  const float* scales(int64_t row) const { return scales_ + row * row_scales_; }
  const int32_t* sums(int64_t row) const { return sums_ + row * row_scales_; }

 private:
  RowFormat format_;
  const float* x_;
  int64_t rows_;
  int64_t features_;
  int64_t stride_;
  int64_t row_scales_;
  uint8_t* numbers_ = nullptr;
  float* scales_ = nullptr;
  int32_t* sums_ = nullptr;
};

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
