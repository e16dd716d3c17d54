#ifndef FERMATA_ENGINE_LAYERS_PROJECTION_H_
#define FERMATA_ENGINE_LAYERS_PROJECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/arena.h"
#include "engine/base/weights.h"
#include "engine/layers/linear.h"
#include "engine/layers/sequence.h"
#include "engine/layers/short_convolution.h"

namespace fermata {

struct ProjectionOptions {
  int64_t in = 0;
  int64_t out = 0;
  int64_t taps = 0;  // Of the convolution; 0 for none.
  bool convolution_bias = false;
  Activation activation = Activation::kSilu;  // After the convolution.
};

// The way to q, k or v in flash-linear-attention's layers: a product, then a short convolution if
// there is one. Immutable and thread-safe.
class Projection {
 public:
  // For the letter "q": reads q_proj and, with taps, q_conv1d, whose state is called q_conv.
  static absl::StatusOr<Projection> Read(const WeightScope& weights, const std::string& letter,
                                         const ProjectionOptions& options, StateLayout& layout);

  // [rows, out] for x [rows, in], in scratch memory. Moves the sequences' states.
  float* Apply(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
               Arena& arena) const;

 private:
  Linear linear_;
  std::optional<ShortConvolution> convolution_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_PROJECTION_H_
