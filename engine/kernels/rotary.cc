#include "engine/kernels/rotary.h"

#include <cmath>

namespace fermata {

Rotary::Rotary(int64_t dim, double base) : dim_(dim), frequencies_(dim / 2) {
  for (int64_t i = 0; i < dim / 2; ++i) {
    frequencies_[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  }
}

void Rotary::Rotate(int64_t position, int64_t heads, float* x) const {
  const int64_t half = dim_ / 2;
  for (int64_t i = 0; i < half; ++i) {
    // In double: in float a long sequence's angles would lose their digits.
    const double angle = static_cast<double>(position) * frequencies_[i];
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(std::sin(angle));
    for (int64_t head = 0; head < heads; ++head) {
      float& first = x[head * dim_ + i];
      float& second = x[head * dim_ + half + i];
      const float turned = first * cosine - second * sine;
      second = second * cosine + first * sine;
      first = turned;
    }
  }
}

}  // namespace fermata
