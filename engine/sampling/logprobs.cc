#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>

#include "engine/sampling/sampler.h"
#include "engine/sampling/usable_logit.h"

namespace fermata {
namespace {

// The ids of the `count` largest logits, largest first, equals by id. `count` is small, so one pass
// with an insertion into the short list beats any selection over the whole vocabulary.
std::vector<int32_t> LargestLogits(std::span<const float> logits, size_t count) {
  std::vector<int32_t> largest;
  if (count == 0) return largest;
  largest.reserve(count + 1);
  const auto value = [&](int32_t id) { return UsableLogit(logits[id]); };
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    if (largest.size() == count && value(id) <= value(largest.back())) continue;
    const auto place = std::upper_bound(largest.begin(), largest.end(), id,
                                        [&](int32_t a, int32_t b) { return value(a) > value(b); });
    largest.insert(place, id);
    if (largest.size() > count) largest.pop_back();
  }
  return largest;
}

}  // namespace

SampledToken ScoreToken(std::span<const float> logits, int32_t token, int32_t top) {
  assert(token >= 0 && static_cast<size_t>(token) < logits.size() && top >= 0);
  double largest = kImpossible;
  for (const float logit : logits) largest = std::max(largest, UsableLogit(logit));
  double sum = 0;
  if (largest != kImpossible) {
    for (const float logit : logits) sum += std::exp(UsableLogit(logit) - largest);
  }
  const auto logprob = [&](int32_t id) {
    const double logit = UsableLogit(logits[id]);
    if (logit == kImpossible) return kNoLogprob;
    return static_cast<float>(std::max<double>(logit - largest - std::log(sum), kNoLogprob));
  };

  SampledToken scored{.token = token, .logprob = logprob(token), .top = {}};
  for (const int32_t id : LargestLogits(logits, std::min<size_t>(top, logits.size()))) {
    scored.top.push_back({.token = id, .logprob = logprob(id)});
  }
  return scored;
}

}  // namespace fermata
