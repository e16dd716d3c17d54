#ifndef FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/weights.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/matmul_rows.h"

namespace fermata {

inline constexpr int64_t kPieceColumns = 64;
// Bounds scratch memory and the number of oneDNN's primitives.
inline constexpr int64_t kMostRowsAtOnce = 256;

// A packed weight matrix together with the code that multiplies by it; private to PackedMatrix and
// its tests. The promises of PackedMatrix are those of each backend.
//
// A product is computed in pieces of kPieceColumns output features, each by itself, or whole by a
// library that has threads of its own. MultiplyAll decides who does what when.
class MatmulBackend {
 public:
  enum class Way {
    kPieces,
    kWhole,            // MultiplyWhole alone.
    kWholeThenPieces,  // MultiplyWhole leaves something to do for MultiplyPiece.
  };

  MatmulBackend(int64_t out_features, int64_t in_features)
      : out_features_(out_features), in_features_(in_features) {}
  virtual ~MatmulBackend() = default;

  int64_t out_features() const { return out_features_; }
  int64_t in_features() const { return in_features_; }
  virtual int64_t bytes() const = 0;

  // How so many rows are multiplied, at most kMostRowsAtOnce. The bits do not depend on it.
  virtual Way WayFor(int64_t rows) const = 0;
  // What MultiplyWhole and MultiplyPiece take.
  virtual RowFormat row_format() const { return RowFormat::kFloat; }
  // What a piece and one row are worth in multiply-adds of float32.
  virtual int64_t piece_work() const { return kPieceColumns * in_features_; }

  // y [x.rows(), out_features] = x · Wᵀ.
  virtual void MultiplyWhole(const NarrowRows&, float*) const {}
  // The piece that begins with output feature `column`, for rows [row, row + rows) of x; y is that of
  // all rows and columns.
  struct Piece {
    int64_t row;
    int64_t rows;
    int64_t column;
  };
  virtual void MultiplyPiece(const NarrowRows&, const Piece&, float*) const {}

  // y [rows, out_features] = x [rows, in_features] · Wᵀ: MultiplyAll of this alone.
  void Multiply(const float* x, int64_t rows, float* y) const;

 protected:
  const int64_t out_features_;
  const int64_t in_features_;
};

struct BackendProduct {
  const MatmulBackend* matrix = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  const Finish* finish = nullptr;  // Or an empty one, or null.
};

// As matmul.h's.
void MultiplyAll(std::span<const BackendProduct> products, int64_t rows);

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

// bfloat16. oneDNN: a product for each 1024 of in_features, as its sums of more depend on the number
// of rows, and those added in order. Null where it has none, or where a row would depend on the
// others all the same.
std::unique_ptr<MatmulBackend> PackBf16OneDnn(const float* weights, int64_t out_features,
                                              int64_t in_features);

// int8, a scale for each output feature. More than `own_rows` rows are multiplied by oneDNN, where it
// has an exact product; the bits are the same.
std::unique_ptr<MatmulBackend> PackInt8(const float* weights, int64_t out_features,
                                        int64_t in_features, int64_t own_rows);

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

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
