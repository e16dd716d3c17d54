#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/features/random_projection.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"

namespace fermata {
namespace {

// Generalised attention with ReLU (Choromanski et al. 2021, §2.3 with f = relu): φ(x) = max(ω_iᵀx',
// 0) + epsilon with x' = scale · x. No divisor: a normaliser cancels it.
class GeneralizedRelu : public SizedMap {
 public:
  GeneralizedRelu(int64_t head_dim, Projection projection, float epsilon)
      : SizedMap(head_dim, projection.num_features, true), epsilon_(epsilon) {
    Scale(projection.scale, projection.omega.data(), feature_dim() * head_dim);
    omega_ = PackedMatrix(projection.omega.data(), feature_dim(), head_dim);
  }

  void Apply(const float* x, int64_t rows, float* out) const override {
    omega_.Multiply(x, rows, out);
    Relu(out, out, rows * feature_dim());
    Shift(epsilon_, out, rows * feature_dim());
  }

 private:
  float epsilon_;
  PackedMatrix omega_;  // Scaled.
};

}  // namespace

MapOrError CreateGeneralizedRelu(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(ConfigReader map_options, MapOptions(options));
  FERMATA_ASSIGN_OR_RETURN(Projection projection, ReadProjection(options, map_options, true));
  FERMATA_ASSIGN_OR_RETURN(const double epsilon, map_options.Number("epsilon", 0, 1, 1e-3));
  FERMATA_RETURN_IF_ERROR(CheckAllRead(map_options));
  return std::make_unique<GeneralizedRelu>(options.head_dim, std::move(projection),
                                           static_cast<float>(epsilon));
}

}  // namespace fermata
