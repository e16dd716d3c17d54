#ifndef FERMATA_ENGINE_LAYERS_NORM_H_
#define FERMATA_ENGINE_LAYERS_NORM_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/weights.h"

namespace fermata {

struct NormOptions {
  enum class Kind { kRms, kLayer };

  Kind kind = Kind::kRms;
  int64_t dim = 0;     // What is normalised together.
  int64_t groups = 1;  // A row has so many groups of `dim`, each with weights of its own.
  float eps = 0;
  bool weight = true;
  bool bias = false;  // For kLayer.
};

// RMSNorm, LayerNorm and GroupNorm (a LayerNorm of each group) with their weights. Immutable and
// thread-safe.
class Norm {
 public:
  // Reads `name`.weight and `name`.bias, [groups · dim] each, as far as there are any.
  static absl::StatusOr<Norm> Read(const WeightScope& weights, std::string_view name,
                                   const NormOptions& options);

  // out [rows, groups · dim] for x of that shape; out may be x.
  void Apply(const float* x, int64_t rows, float* out) const;

 private:
  NormOptions options_;
  AlignedBuffer<float> weight_;
  AlignedBuffer<float> bias_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_NORM_H_
