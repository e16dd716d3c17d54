#include "engine/sampling/candidates.h"

#include <algorithm>
#include <functional>

#include "engine/kernels/softmax_weights.h"

namespace fermata {

void BlockLogits::Reset(std::span<const float> logits) {
  logits_ = logits;
  const auto count = static_cast<int64_t>(logits.size());
  maxima_.resize(VocabularyBlocks(count));
  BlockMaxima(logits.data(), count, maxima_.data());
  largest_ = *std::max_element(maxima_.begin(), maxima_.end());
}

double BlockLogits::Bound(int64_t count) {
  if (count > static_cast<int64_t>(maxima_.size())) return kImpossible;
  // So many blocks have a logit that reaches it.
  sorted_ = maxima_;
  const auto last = sorted_.begin() + (count - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  return *last;
}

void BlockLogits::AppendFrom(double bound, std::vector<Candidate>& candidates) const {
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (!(maxima_[block] >= bound)) continue;
    const size_t begin = block * kVocabularyBlock;
    const size_t end = std::min<size_t>(begin + kVocabularyBlock, logits_.size());
    for (size_t id = begin; id < end; ++id) {
      if (!(logits_[id] >= bound)) continue;  // NaN neither.
      const double logit = UsableLogit(logits_[id]);
      if (logit == kImpossible) continue;
      candidates.push_back({.logit = logit, .weight = 0, .id = static_cast<int32_t>(id)});
    }
  }
}

}  // namespace fermata
