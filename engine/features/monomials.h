#ifndef FERMATA_ENGINE_FEATURES_MONOMIALS_H_
#define FERMATA_ENGINE_FEATURES_MONOMIALS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/features/feature_map.h"

namespace fermata {

// The kernel κ(q, k) = Σ_j coefficients[j] · (q'·k')^j with x' = scale · x.
struct PolynomialKernel {
  int64_t head_dim = 0;
  float scale = 1;
  std::vector<double> coefficients;  // By degree; none negative, the last positive.
};

// Its exact feature map: the monomials of each degree whose coefficient is not 0, by the
// multinomial theorem (q·k)^j = Σ_{|α|=j} j!/α! · q^α k^α, so that φ_α(x) = √(coefficients[j] ·
// j!/α!) · x'^α. Monomials are symmetric, and each is there once: C(head_dim + j - 1, j) of degree
// j, in the lexicographic order of their sorted indices.
//
// RESOURCE_EXHAUSTED when that is more than kMaxMonomials features.
inline constexpr int64_t kMaxMonomials = int64_t{1} << 20;
absl::StatusOr<std::unique_ptr<FeatureMap>> CreateMonomialMap(const PolynomialKernel& kernel);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FEATURES_MONOMIALS_H_
