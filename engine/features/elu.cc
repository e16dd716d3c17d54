#include <memory>

#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

// φ(x) = elu(x) + 1, always positive (Katharopoulos et al. 2020, eq. 7).
class Elu : public SizedMap {
 public:
  explicit Elu(int64_t head_dim) : SizedMap(head_dim, head_dim, true) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    EluPlusOne(x, out, rows * head_dim());
  }
};

}  // namespace

MapOrError CreateElu(const FeatureMapOptions& options) {
  return std::make_unique<Elu>(options.head_dim);
}

}  // namespace fermata
