#ifndef FERMATA_TESTS_ENGINE_SAMPLING_REFERENCE_H_
#define FERMATA_TESTS_ENGINE_SAMPLING_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <vector>

#include "engine/sampling/sampler.h"

namespace fermata {

// The probability of each token by the definitions in sampler.h, one plain step after another in
// float64 and with full sorts. For temperature > 0 and finite logits.
inline std::vector<double> ReferenceDistribution(const std::vector<float>& logits,
                                                 const SamplingParams& params,
                                                 const SamplerMemory& memory, bool allow_stop) {
  std::vector<double> value(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias) value[id] += bias;

  std::map<int, int> counts;
  const std::vector<int> history(memory.tokens().begin(), memory.tokens().end());
  const int size = static_cast<int>(history.size());
  for (int i = std::max(0, size - params.penalty_window); i < size; ++i) counts[history[i]]++;
  for (const auto& [id, count] : counts) {
    if (value[id] > 0) {
      value[id] /= params.repetition_penalty;
    } else {
      value[id] *= params.repetition_penalty;
    }
    value[id] -= params.presence_penalty;
    value[id] -= params.frequency_penalty * count;
  }
  if (!allow_stop) {
    for (const int id : params.stop_token_ids) value[id] = -INFINITY;
  }

  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return value[a] > value[b]; });
  std::vector<double> mass(logits.size());
  for (size_t i = 0; i < mass.size(); ++i) {
    mass[i] = std::exp((value[i] - value[order[0]]) / params.temperature);
  }
  const auto drop_from = [&](size_t rank) {
    for (; rank < order.size(); ++rank) mass[order[rank]] = 0;
  };
  if (params.top_k > 0) drop_from(static_cast<size_t>(params.top_k));
  const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
  double reached = 0;
  for (size_t rank = 0; rank < order.size() && params.top_p < 1; ++rank) {
    reached += mass[order[rank]];
    if (reached >= params.top_p * total) {
      drop_from(rank + 1);
      break;
    }
  }
  for (double& m : mass) {
    if (m < params.min_p * mass[order[0]]) m = 0;
  }
  const double kept = std::accumulate(mass.begin(), mass.end(), 0.0);
  for (double& m : mass) m /= kept;
  return mass;
}

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SAMPLING_REFERENCE_H_
