#ifndef FERMATA_ENGINE_SAMPLING_USABLE_LOGIT_H_
#define FERMATA_ENGINE_SAMPLING_USABLE_LOGIT_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace fermata {

inline constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// A logit as sampling sees it: NaN is kImpossible, and +inf the largest float, so that differences
// of possible logits are always numbers.
inline double UsableLogit(float logit) {
  if (std::isnan(logit)) return kImpossible;
  return std::min(logit, std::numeric_limits<float>::max());
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_SAMPLING_USABLE_LOGIT_H_
