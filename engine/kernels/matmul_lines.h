#ifndef FERMATA_ENGINE_KERNELS_MATMUL_LINES_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_LINES_H_

#include <cstdint>

namespace fermata {

// How narrow weights lie in memory, for kernels of our own and for oneDNN's alike (its BA16a64b4a
// and BA16a64b2a).
//
// A panel holds the weights of kLineColumns output features as lines, one after the other. A line
// is one step along in_features for all of the panel's columns: for each column a word of the step's
// numbers, four int8 or two bfloat16. Columns and steps past the end are zero.
inline constexpr int64_t kLineColumns = 64;
inline constexpr int64_t kWordBytes = 4;
inline constexpr int64_t kLineBytes = kLineColumns * kWordBytes;
// Lines of a panel come in multiples of these.
inline constexpr int64_t kLineMultiple = 16;

// The smallest multiple of `unit` that is not below `count`.
constexpr int64_t RoundUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Some rows times the columns of one panel.
struct LinesTask {
  const uint8_t* x;  // [rows, x_stride bytes], words as the lines' ones.
  int64_t rows;
  int64_t x_stride;
  const uint8_t* panel;
  int64_t lines;
  float* y;  // [rows, y_stride], of which `columns` columns are this panel's.
  int64_t y_stride;
  int64_t columns;
  const float* row_scales;       // [rows]; of integers only, as are the next two.
  const float* column_scales;    // [kLineColumns]
  const int32_t* column_offset;  // [kLineColumns], to be added to the sums.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_LINES_H_
