#ifndef FERMATA_ENGINE_SAMPLING_CANDIDATES_H_
#define FERMATA_ENGINE_SAMPLING_CANDIDATES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/usable_logit.h"

namespace fermata {

// A token that may be chosen.
struct Candidate {
  double logit = kImpossible;  // Adjusted.
  double weight = 0;           // Proportional to the probability; the most likely has 1.
  int32_t id = 0;
};

// The order of truncation: the most likely first, equals by id. Total, so that what is kept does
// not depend on how the library selects.
inline constexpr auto Precedes = [](const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

// The largest logit of each block of the vocabulary: where the likely tokens are, found in one pass.
class BlockLogits {
 public:
  // `logits` [at least 1] must outlive this.
  void Reset(std::span<const float> logits);

  double largest() const { return largest_; }
  float maximum(size_t block) const { return maxima_[block]; }
  // A bound that at least `count` logits reach, and few more; kImpossible when that is not known.
  double Bound(int64_t count);
  // Appends all tokens whose logit is at least `bound`, and possible, in order of id, without weights.
  void AppendFrom(double bound, std::vector<Candidate>& candidates) const;

 private:
  std::span<const float> logits_;
  std::vector<float> maxima_;
  std::vector<float> sorted_;
  double largest_ = kImpossible;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SAMPLING_CANDIDATES_H_
