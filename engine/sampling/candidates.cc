#include "engine/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

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
  if (bound > largest_) return;
  // The least possible float that reaches it.
  bound = std::max<double>(bound, std::numeric_limits<float>::lowest());
  auto least = static_cast<float>(bound);
  if (least < bound) least = std::nextafter(least, std::numeric_limits<float>::infinity());
  int32_t places[kPlacesRoom];
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (!(maxima_[block] >= bound)) continue;
    const size_t begin = block * kVocabularyBlock;
    const size_t count = std::min<size_t>(logits_.size() - begin, kVocabularyBlock);
    const int64_t found = PlacesFrom(least, logits_.data() + begin, count, places);
    for (int64_t i = 0; i < found; ++i) {
      const size_t id = begin + places[i];
      candidates.push_back(
          {.logit = UsableLogit(logits_[id]), .weight = 0, .id = static_cast<int32_t>(id)});
    }
  }
}

}  // namespace fermata
