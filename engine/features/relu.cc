#include <memory>

#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

// φ(x) = max(x, 0).
class ReluMap : public SizedMap {
 public:
  explicit ReluMap(int64_t head_dim) : SizedMap(head_dim, head_dim, true) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    Relu(x, out, rows * head_dim());
  }
};

}  // namespace

MapOrError CreateRelu(const FeatureMapOptions& options) {
  return std::make_unique<ReluMap>(options.head_dim);
}

}  // namespace fermata
