#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/features/monomials.h"

namespace fermata {

// κ(q, k) = Σ_{j ≤ order} (q'·k')^j / j! with x' = scale · x: exp(q'·k') cut off after `order`. For
// an even order it is positive everywhere, though single features are not.
MapOrError CreateTaylor(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(ConfigReader map_options, MapOptions(options));
  FERMATA_ASSIGN_OR_RETURN(const int64_t order, map_options.Int("order", 1, 16, 2));
  PolynomialKernel kernel = {.head_dim = options.head_dim, .scale = 1, .coefficients = {1.0}};
  FERMATA_ASSIGN_OR_RETURN(kernel.scale, ReadScale(map_options, options.head_dim));
  FERMATA_RETURN_IF_ERROR(CheckAllRead(map_options));
  for (int64_t j = 1; j <= order; ++j) {
    kernel.coefficients.push_back(kernel.coefficients.back() / static_cast<double>(j));
  }
  return CreateMonomialMap(kernel);
}

}  // namespace fermata
