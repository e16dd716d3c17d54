#include <cmath>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/features/random_projection.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/norm.h"

namespace fermata {
namespace {

// Exponents are cut off here, so that the product of two features is finite: e^43 squared is half
// the largest float.
constexpr float kMaxExponent = 43.0f;

// Positive random features, FAVOR+ (Choromanski et al. 2021, "Rethinking Attention with
// Performers", Lemma 1; "Linear Attention & Kernel Methods", eq. 7): φ(x) = exp(ω_iᵀx' - |x'|²/2) /
// √D with x' = scale · x, an unbiased estimate of exp(q'·k'). With `hyperbolic`, each ω_i gives a
// second feature with -ω_i, and the divisor is √(2D).
//
// ω_iᵀx' - |x'|²/2 is at most |ω_i|²/2, about head_dim / 2, whatever x is: the cut at kMaxExponent
// is met by x' near an ω_i of length over 9 alone. For long x' every feature underflows to 0, and
// the normaliser's rule for vanishing denominators takes over.
class Favor : public SizedMap {
 public:
  Favor(int64_t head_dim, Projection projection, bool hyperbolic)
      : SizedMap(head_dim, (hyperbolic ? 2 : 1) * projection.num_features, true),
        hyperbolic_(hyperbolic),
        num_features_(projection.num_features),
        half_square_scale_(projection.scale * projection.scale / 2),
        log_norm_(0.5f * std::log(static_cast<float>(feature_dim()))) {
    Scale(projection.scale, projection.omega.data(), num_features_ * head_dim);
    omega_ = PackedMatrix(projection.omega.data(), num_features_, head_dim);
  }

  void Apply(const float* x, int64_t rows, float* out) const override {
    AlignedBuffer<float> products(rows * num_features_);
    omega_.Multiply(x, rows, products.data());
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = x + row * head_dim();
      float* product = products.data() + row * num_features_;
      float* features = out + row * feature_dim();
      const float shift = -half_square_scale_ * Dot(from, from, head_dim()) - log_norm_;
      ExpOfSum(product, shift, kMaxExponent, features, num_features_);
      if (!hyperbolic_) continue;
      Scale(-1.0f, product, num_features_);
      ExpOfSum(product, shift, kMaxExponent, features + num_features_, num_features_);
    }
  }

 private:
  bool hyperbolic_;
  int64_t num_features_;
  float half_square_scale_;
  float log_norm_;
  PackedMatrix omega_;  // Scaled.
};

}  // namespace

MapOrError CreateFavor(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(ConfigReader map_options, MapOptions(options));
  FERMATA_ASSIGN_OR_RETURN(Projection projection, ReadProjection(options, map_options, true));
  FERMATA_ASSIGN_OR_RETURN(const bool hyperbolic, map_options.Bool("hyperbolic", false));
  FERMATA_RETURN_IF_ERROR(CheckAllRead(map_options));
  return std::make_unique<Favor>(options.head_dim, std::move(projection), hyperbolic);
}

}  // namespace fermata
