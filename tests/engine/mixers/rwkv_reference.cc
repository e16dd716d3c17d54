#include "tests/engine/mixers/rwkv_reference.h"

#include <cmath>

namespace fermata {

Doubles ReferenceShift(const Doubles& x, int64_t hidden) {
  Doubles delta(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    delta[i] = (i < static_cast<size_t>(hidden) ? 0 : x[i - hidden]) - x[i];
  }
  return delta;
}

Doubles ReferenceMix(const Doubles& x, const Doubles& mu) {
  const auto hidden = static_cast<int64_t>(mu.size());
  Doubles mixed = ReferenceShift(x, hidden);
  for (size_t i = 0; i < x.size(); ++i) mixed[i] = x[i] + mu[i % hidden] * mixed[i];
  return mixed;
}

Doubles ReferenceMix(RandomWeights& weights, const std::string& name, const Doubles& x,
                     int64_t hidden) {
  return ReferenceMix(x, Tensor(weights, name, {hidden}));
}

Doubles ReferenceMixedLinear(RandomWeights& weights, const std::string& mu,
                             const std::string& linear, const Doubles& x, int64_t hidden,
                             int64_t out) {
  return ReferenceLinear(weights, linear + ".weight", ReferenceMix(weights, mu, x, hidden), hidden,
                         out);
}

void ReferenceGroupNorm(RandomWeights& weights, const std::string& name, Doubles& x, int64_t dim,
                        int64_t groups, double eps) {
  const Doubles weight = Tensor(weights, name + ".weight", {groups * dim});
  const Doubles bias = Tensor(weights, name + ".bias", {groups * dim});
  for (size_t begin = 0; begin < x.size(); begin += dim) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < dim; ++i) mean += x[begin + i] / static_cast<double>(dim);
    for (int64_t i = 0; i < dim; ++i) {
      variance += std::pow(x[begin + i] - mean, 2) / static_cast<double>(dim);
    }
    for (int64_t i = 0; i < dim; ++i) {
      const size_t channel = (begin + i) % weight.size();
      x[begin + i] =
          (x[begin + i] - mean) / std::sqrt(variance + eps) * weight[channel] + bias[channel];
    }
  }
}

}  // namespace fermata
