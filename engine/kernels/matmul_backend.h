#ifndef FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "engine/base/weights.h"

namespace fermata {

// A packed weight matrix together with the code that multiplies by it; private to PackedMatrix and
// its tests. The promises of PackedMatrix are those of each backend.
class MatmulBackend {
 public:
  MatmulBackend(int64_t out_features, int64_t in_features)
      : out_features_(out_features), in_features_(in_features) {}
  virtual ~MatmulBackend() = default;

  // y [rows, out_features] = x [rows, in_features] · Wᵀ.
  void Multiply(const float* x, int64_t rows, float* y) const {
    for (int64_t row = 0; row < rows; row += kMostRowsAtOnce) {
      MultiplyRows(x + row * in_features_, std::min(kMostRowsAtOnce, rows - row),
                   y + row * out_features_);
    }
  }
  virtual int64_t bytes() const = 0;

 protected:
  // Bounds scratch memory and the number of oneDNN's primitives.
  static constexpr int64_t kMostRowsAtOnce = 256;

  // The same for at most kMostRowsAtOnce rows, and at least one.
  virtual void MultiplyRows(const float* x, int64_t rows, float* y) const = 0;

  const int64_t out_features_;
  const int64_t in_features_;
};

// Each of the following packs `weights` [out_features, in_features], row-major and finite, on
// several threads.

// float32. Highway, on any processor. Each output element has one accumulator that runs over
// in_features in order, whatever rows and columns are computed beside it.
std::unique_ptr<MatmulBackend> PackPanels(const float* weights, int64_t out_features,
                                          int64_t in_features);

// float32. oneDNN; null where its product of this shape would let a row depend on the others.
std::unique_ptr<MatmulBackend> PackOneDnn(const float* weights, int64_t out_features,
                                          int64_t in_features);

// bfloat16. Highway, or the processor's own dot products of it where `use_dot_products` allows.
// Sums in order, as PackPanels; on normal numbers the two give the same bits.
std::unique_ptr<MatmulBackend> PackBf16Lines(const float* weights, int64_t out_features,
                                             int64_t in_features, bool use_dot_products = true);

// bfloat16. oneDNN on matrix tiles (or, as tests want it, `without_tiles` too): a product for each
// 1024 of in_features, as its sums of more depend on the number of rows, and those added in order.
// Null where it has none, or where a row would depend on the others all the same. Without tiles
// PackBf16Lines is faster at any number of rows (matmul_bench --benchmark_filter='bf16/'): one core
// of an AMD EPYC did 768 x 3072 at 1, 8, 64 and 256 rows in 151, 198, 1,371 and 5,521 µs, and the
// library in 257, 313, 1,605 and 6,227. The two must not be mixed: they add in another order.
std::unique_ptr<MatmulBackend> PackBf16OneDnn(const float* weights, int64_t out_features,
                                              int64_t in_features, bool without_tiles = false);

// int8, a scale for each output feature. From `library_rows` rows on oneDNN multiplies, where it has
// an exact product; the bits are the same. The default is measured (matmul_int8.cc).
inline constexpr int64_t kMeasuredRows = -1;
inline constexpr int64_t kNeverRows = std::numeric_limits<int64_t>::max();
std::unique_ptr<MatmulBackend> PackInt8(const float* weights, int64_t out_features,
                                        int64_t in_features, int64_t library_rows = kMeasuredRows);

// int4, a scale for each 32 of a row.
std::unique_ptr<MatmulBackend> PackInt4(const float* weights, int64_t out_features,
                                        int64_t in_features);

// Blocks as they are stored: `blocks` of a row-major [out_features, in_features], of their type's
// size. Null when a scale is not finite.
std::unique_ptr<MatmulBackend> PackBlocks(const WeightBlocks& blocks, int64_t out_features,
                                          int64_t in_features);

// What a float32 product is worth in threads (base/parallel.h). Reading the weights takes as long as
// multiplying about eight rows by them.
inline int64_t MatmulWork(int64_t out_features, int64_t in_features, int64_t rows) {
  return out_features * in_features * std::max<int64_t>(rows, 8);
}

// Scratch memory of the calling thread, aligned to a cache line; valid until the thread's next call.
std::byte* ProductScratch(size_t bytes);

// Calls body(panel, row, rows) for all panels and for rows in cuts, on as many threads as it is
// worth; `work` is that of a panel and one row.
void ForEachPanel(int64_t panels, int64_t rows, int64_t work,
                  absl::FunctionRef<void(int64_t panel, int64_t row, int64_t rows)> body);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
