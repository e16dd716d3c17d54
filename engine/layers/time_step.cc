#include "engine/layers/time_step.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"

namespace fermata {

absl::StatusOr<TimeStep> TimeStep::Read(const WeightScope& weights, const Options& options) {
  TimeStep step;
  step.options_ = options;
  FERMATA_ASSIGN_OR_RETURN(step.bias_, weights.Read("dt_bias", {options.num_heads}));
  FERMATA_ASSIGN_OR_RETURN(step.rate_, weights.Read("A_log", {options.num_heads}));
  for (float& rate : step.rate_) {
    // Finite, so that a step of 0 keeps the state.
    rate = -std::min(std::exp(rate), std::numeric_limits<float>::max());
  }
  return step;
}

float* TimeStep::Apply(float* x, int64_t rows, Arena& arena) const {
  const int64_t heads = options_.num_heads;
  const auto low = static_cast<float>(options_.low);
  const auto high = static_cast<float>(options_.high);
  for (int64_t row = 0; row < rows; ++row) Add(bias_.data(), x + row * heads, heads);
  Softplus(x, x, rows * heads);
  for (int64_t i = 0; i < rows * heads; ++i) x[i] = std::min(std::max(x[i], low), high);
  float* decay = arena.Floats(rows * heads);
  std::copy_n(x, rows * heads, decay);
  for (int64_t row = 0; row < rows; ++row) Multiply(rate_.data(), decay + row * heads, heads);
  Exp(decay, decay, rows * heads);
  return decay;
}

}  // namespace fermata
