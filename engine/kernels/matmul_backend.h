#ifndef FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_

#include <algorithm>
#include <cstdint>
#include <memory>

namespace fermata {

// A packed weight matrix together with the code that multiplies by it; private to PackedMatrix and
// its tests. The promises of PackedMatrix are those of each backend.
class MatmulBackend {
 public:
  virtual ~MatmulBackend() = default;

  // y [rows, out_features] = x [rows, in_features] · Wᵀ.
  virtual void Multiply(const float* x, int64_t rows, float* y) const = 0;
  virtual int64_t bytes() const = 0;
};

// What a product is worth in threads (base/parallel.h). Reading the weights takes as long as
// multiplying about eight rows by them.
inline int64_t MatmulWork(int64_t out_features, int64_t in_features, int64_t rows) {
  return out_features * in_features * std::max<int64_t>(rows, 8);
}

// Highway, on any processor. Each output element has one accumulator that runs over in_features in
// order, whatever rows and columns are computed beside it.
std::unique_ptr<MatmulBackend> PackPanels(const float* weights, int64_t out_features,
                                          int64_t in_features);

// oneDNN; null where its product of this shape would let a row depend on the others.
std::unique_ptr<MatmulBackend> PackOneDnn(const float* weights, int64_t out_features,
                                          int64_t in_features);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_BACKEND_H_
