#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "engine/kernels/softmax_weights.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/usable_logit.h"

namespace fermata {
SampledToken ScoreToken(std::span<const float> logits, int32_t token, int32_t top) {
  assert(token >= 0 && static_cast<size_t>(token) < logits.size() && top >= 0);
  thread_local BlockLogits blocks;
  thread_local std::vector<double> weights;
  thread_local std::vector<double> sums;
  thread_local std::vector<Candidate> likely;
  const auto vocab_size = static_cast<int64_t>(logits.size());
  blocks.Reset(logits);
  const double largest = blocks.largest();
  double sum = 0;
  if (largest != kImpossible) {
    sums.resize(VocabularyBlocks(vocab_size));
    weights.resize(sums.size() * kVocabularyBlock);
    SoftmaxWeights(logits.data(), vocab_size, largest, /*temperature=*/1, weights.data(),
                   sums.data());
    sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  const auto logprob = [&](int32_t id) {
    const double logit = UsableLogit(logits[id]);
    if (logit == kImpossible) return kNoLogprob;
    return static_cast<float>(std::max<double>(logit - largest - std::log(sum), kNoLogprob));
  };

  SampledToken scored{.token = token, .logprob = logprob(token), .top = {}};
  if (top == 0) return scored;
  likely.clear();
  blocks.AppendFrom(blocks.Bound(top), likely);
  const size_t count = std::min<size_t>(top, likely.size());
  std::partial_sort(likely.begin(), likely.begin() + static_cast<std::ptrdiff_t>(count),
                    likely.end(), Precedes);
  for (size_t i = 0; i < count; ++i) {
    scored.top.push_back({.token = likely[i].id, .logprob = logprob(likely[i].id)});
  }
  // Those without any probability come last.
  const auto wanted = std::min<size_t>(top, logits.size());
  for (int32_t id = 0; scored.top.size() < wanted; ++id) {
    if (UsableLogit(logits[id]) == kImpossible) {
      scored.top.push_back({.token = id, .logprob = kNoLogprob});
    }
  }
  return scored;
}

}  // namespace fermata
