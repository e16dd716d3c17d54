#ifndef FERMATA_ENGINE_LAYERS_TIME_STEP_H_
#define FERMATA_ENGINE_LAYERS_TIME_STEP_H_

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/arena.h"
#include "engine/base/weights.h"

namespace fermata {

// How far a token moves a head in time, and how much of the head's state outlives it (Dao and Gu,
// "Transformers are SSMs", section 7):
//   Δ = softplus(x + dt_bias) within limits      α = e^(-Δ e^A_log)
// Immutable and thread-safe.
class TimeStep {
 public:
  struct Options {
    int64_t num_heads = 0;
    double low = 0;
    double high = std::numeric_limits<double>::infinity();
  };

  // Reads dt_bias and A_log, [num_heads] each.
  static absl::StatusOr<TimeStep> Read(const WeightScope& weights, const Options& options);

  // Makes of x [rows, num_heads], in place, Δ. Returns α of the same shape, in scratch memory.
  float* Apply(float* x, int64_t rows, Arena& arena) const;

 private:
  Options options_;
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> rate_;  // -e^A_log
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_TIME_STEP_H_
