#include <cmath>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/features/monomials.h"

namespace fermata {

// κ(q, k) = (q'·k' + constant)^degree with x' = scale · x; by the binomial theorem, the coefficient
// of (q'·k')^j is C(degree, j) · constant^(degree - j).
MapOrError CreatePolynomial(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(ConfigReader map_options, MapOptions(options));
  FERMATA_ASSIGN_OR_RETURN(const int64_t degree, map_options.Int("degree", 1, 16, 2));
  FERMATA_ASSIGN_OR_RETURN(const double constant, map_options.Number("constant", 0, 1e6, 0.0));
  FERMATA_ASSIGN_OR_RETURN(const double scale, map_options.Number("scale", 1e-6, 1e6, 1.0));
  FERMATA_RETURN_IF_ERROR(CheckAllRead(map_options));
  PolynomialKernel kernel = {
      .head_dim = options.head_dim, .scale = static_cast<float>(scale), .coefficients = {}};
  double binomial = 1;
  for (int64_t j = 0; j <= degree; ++j) {
    kernel.coefficients.push_back(binomial * std::pow(constant, static_cast<double>(degree - j)));
    binomial = binomial * static_cast<double>(degree - j) / static_cast<double>(j + 1);
  }
  return CreateMonomialMap(kernel);
}

}  // namespace fermata
