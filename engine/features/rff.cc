#include <cmath>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/features/random_projection.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"

namespace fermata {
namespace {

// Random Fourier features (Rahimi & Recht 2007; "Linear Attention & Kernel Methods", eq. 6):
// φ(x) = [cos ω₁ᵀx', …, cos ω_Dᵀx', sin ω₁ᵀx', …, sin ω_Dᵀx'] / √D with x' = scale · x, an unbiased
// estimate of the Gaussian kernel exp(-|q' - k'|² / 2). That is exp(q'·k') but for a factor of q,
// which a normaliser cancels, and one of k, which stays unless k has a fixed length. Features have
// both signs, so φ(q)ᵀz can vanish.
class Rff : public SizedMap {
 public:
  Rff(int64_t head_dim, Projection projection)
      : SizedMap(head_dim, 2 * projection.num_features, false),
        num_features_(projection.num_features),
        norm_(1.0f / std::sqrt(static_cast<float>(num_features_))) {
    Scale(projection.scale, projection.omega.data(), num_features_ * head_dim);
    omega_ = PackedMatrix(projection.omega.data(), num_features_, head_dim);
  }

  void Apply(const float* x, int64_t rows, float* out) const override {
    AlignedBuffer<float> angles(rows * num_features_);
    omega_.Multiply(x, rows, angles.data());
    for (int64_t row = 0; row < rows; ++row) {
      const float* angle = angles.data() + row * num_features_;
      float* features = out + row * feature_dim();
      Cos(angle, features, num_features_);
      Sin(angle, features + num_features_, num_features_);
    }
    Scale(norm_, out, rows * feature_dim());
  }

 private:
  int64_t num_features_;
  float norm_;
  PackedMatrix omega_;  // Scaled.
};

}  // namespace

MapOrError CreateRff(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(ConfigReader map_options, MapOptions(options));
  FERMATA_ASSIGN_OR_RETURN(Projection projection, ReadProjection(options, map_options, false));
  FERMATA_RETURN_IF_ERROR(CheckAllRead(map_options));
  return std::make_unique<Rff>(options.head_dim, std::move(projection));
}

}  // namespace fermata
