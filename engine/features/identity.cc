#include <algorithm>
#include <memory>

#include "engine/features/map.h"

namespace fermata {
namespace {

// φ(x) = x: with no normaliser, a linear layer whose weights are S.
class Identity : public SizedMap {
 public:
  explicit Identity(int64_t head_dim) : SizedMap(head_dim, head_dim, false) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    std::copy_n(x, rows * head_dim(), out);
  }
};

}  // namespace

MapOrError CreateIdentity(const FeatureMapOptions& options) {
  return std::make_unique<Identity>(options.head_dim);
}

}  // namespace fermata
