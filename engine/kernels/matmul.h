#ifndef FERMATA_ENGINE_KERNELS_MATMUL_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/weights.h"

namespace fermata {

// The weight matrix of a linear layer, y = W x, packed once for the processor it runs on.
//
// The bits of an output row depend on that input row and W alone: not on how many rows are
// multiplied together, nor on the number of threads. Batching therefore never changes a result.
// oneDNN keeps this where its blocked f32 kernels run (AVX-512); elsewhere its product changes with
// the batch, and a kernel of our own, which does keep it, takes over. matmul.cc is the one place
// that knows either.
//
// Immutable after construction; Multiply may be called from several threads at once.
class PackedMatrix {
 public:
  PackedMatrix();  // 0 x 0.
  // Packs `weights` [out_features, in_features], row-major, as checkpoints store it.
  PackedMatrix(const float* weights, int64_t out_features, int64_t in_features);
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  // y [rows, out_features] = x [rows, in_features] · Wᵀ. x and y must not overlap.
  void Multiply(const float* x, int64_t rows, float* y) const;

  int64_t out_features() const;
  int64_t in_features() const;
  // Bytes held by the packed weights.
  int64_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads tensor `name` [out_features, in_features] from `weights` and packs it.
absl::StatusOr<PackedMatrix> ReadMatrix(const WeightScope& weights, std::string_view name,
                                        int64_t out_features, int64_t in_features);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_H_
