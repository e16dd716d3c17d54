#ifndef FERMATA_ENGINE_KERNELS_MATMUL_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/weights.h"

namespace fermata {

// What becomes of a product's rows while they are still in the cache: called once for each `count`
// numbers of a row from `column` on, when those are computed, on the thread that did. It may read
// and change them, and must compute each by itself, as they are cut differently on other days.
// Several threads call it at once; it must not multiply matrices.
using Finish = std::function<void(int64_t row, int64_t column, float* y, int64_t count)>;

// The weight matrix of a linear layer, y = W x, packed once for the processor it runs on.
//
// The bits of an output row depend on that input row and W alone: not on how many rows are
// multiplied together, nor on the number of threads. Batching therefore never changes a result.
// oneDNN keeps this where its blocked kernels run (AVX-512) and sums are not too long; elsewhere its
// product changes with the batch, and a kernel of our own, which does keep it, takes over.
//
// What the types lose, beside the rounding of float32 sums:
//   kF32   nothing.
//   kBf16  weights and inputs are rounded to bfloat16 (8 bits). Sums are float32.
//   kInt8  weights are integers times a scale for each output feature, inputs integers times a scale
//          for each row, the greatest magnitude ±127. Sums of products are exact.
//   kInt4  weights are 4-bit integers times a scale for each 32 of an output feature, inputs 8-bit
//          ones times a scale for each 32 of a row. Sums of 32 are exact, and added as float32.
// A row with NaN or an infinity gives NaN with the integer types (all of it), and what IEEE says
// with the others.
//
// Immutable after construction; Multiply may be called from several threads at once.
class PackedMatrix {
 public:
  PackedMatrix();  // 0 x 0.
  // Packs `weights` [out_features, in_features], row-major, as checkpoints store it, with finite
  // values, as HeldWeightType says.
  PackedMatrix(const float* weights, int64_t out_features, int64_t in_features,
               WeightType type = WeightType::kF32);
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  // A matrix in blocks, multiplied in them: as kInt4 does, with 8 bits for kQ8_0. INVALID_ARGUMENT
  // when the sizes do not fit or a scale is not finite.
  static absl::StatusOr<PackedMatrix> FromBlocks(const WeightBlocks& blocks, int64_t out_features,
                                                 int64_t in_features);

  // y [rows, out_features] = x [rows, in_features] · Wᵀ. x and y must not overlap.
  void Multiply(const float* x, int64_t rows, float* y, const Finish& finish = {}) const;

  int64_t out_features() const;
  int64_t in_features() const;
  // How the weights are held: kInt8 and kInt4 for blocks.
  WeightType type() const;
  // Bytes held by the packed weights.
  int64_t bytes() const;

 private:
  friend void MultiplyAll(std::span<const struct Product> products, int64_t rows);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Product {
  const PackedMatrix* matrix = nullptr;
  const float* x = nullptr;  // [rows, in_features]; products may share it.
  float* y = nullptr;        // [rows, out_features]
  Finish finish;             // Or none.
};

// Several products of `rows` rows each, with the bits that each has alone. Threads are woken once
// for all, and an x that products share is made narrow once.
//
// Neighbours with the same number of output features advance together: a later one's `finish` may
// use the same numbers of an earlier one's y, finished. So `up` may multiply by what `gate` gave.
void MultiplyAll(std::span<const Product> products, int64_t rows);

// How a matrix that is wanted as `type` is held. Narrow and small ones stay float32: they are the
// low-rank factors, gates and decays that a model is sensitive to, and a small part of its weights.
WeightType HeldWeightType(WeightType type, int64_t out_features, int64_t in_features);

// How a matrix that a file stores as `dtype` ("F32", "Q4_K", …) is best held on this processor:
// 16-bit types as kBf16 where the processor multiplies that, quantised ones as kInt8 (but see
// WeightSource::ReadBlocks for Q8_0 and Q4_0), all else as kF32.
WeightType AutoWeightType(std::string_view dtype);

// Whether the processor has dot products of bfloat16. Without them kBf16 saves memory and the time
// to read it, but no arithmetic.
bool HasBf16Products();

// Reads tensor `name` [out_features, in_features] from `weights` and packs it: in its blocks where
// the source hands them out, else as the type that it names. Narrow and small ones, see
// HeldWeightType, are widened from blocks too.
absl::StatusOr<PackedMatrix> ReadMatrix(const WeightScope& weights, std::string_view name,
                                        int64_t out_features, int64_t in_features);
// The same for a tensor that is several matrices one below the other, of so many output features.
absl::StatusOr<std::vector<PackedMatrix>> ReadMatrices(const WeightScope& weights,
                                                       std::string_view name,
                                                       std::span<const int64_t> out_features,
                                                       int64_t in_features);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_H_
