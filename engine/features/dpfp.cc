#include <algorithm>
#include <memory>

#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

constexpr int64_t kRolls = 4;  // ν of the paper, as published checkpoints have it.

// Deterministic parameter-free projection (Schlag et al. 2021, "Linear Transformers Are Secretly
// Fast Weight Programmers"): for j = 1..ν the products r[i] · r[i - j], indices taken round the
// 2 · head_dim elements of r. In the paper r = [max(x, 0), max(-x, 0)]; the published layer, and
// so every checkpoint, has r = [max(x, 0), -max(x, 0)], which can make features negative.
class Dpfp : public SizedMap {
 public:
  explicit Dpfp(int64_t head_dim) : SizedMap(head_dim, 2 * kRolls * head_dim, false) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    const int64_t size = 2 * head_dim();
    AlignedBuffer<float> rectified(size);
    float* r = rectified.data();
    for (int64_t row = 0; row < rows; ++row) {
      Relu(x + row * head_dim(), r, head_dim());
      Scale(-1.0f, r, r + head_dim(), head_dim());
      for (int64_t j = 1; j <= kRolls; ++j) {
        float* to = out + row * feature_dim() + (j - 1) * size;
        std::rotate_copy(r, r + size - j % size, r + size, to);
        Multiply(r, to, size);
      }
    }
  }
};

}  // namespace

MapOrError CreateDpfp(const FeatureMapOptions& options) {
  return std::make_unique<Dpfp>(options.head_dim);
}

}  // namespace fermata
