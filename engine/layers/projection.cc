#include "engine/layers/projection.h"

#include "engine/base/status.h"

namespace fermata {

absl::StatusOr<Projection> Projection::Read(const WeightScope& weights, const std::string& letter,
                                            const ProjectionOptions& options, StateLayout& layout) {
  Projection projection;
  FERMATA_ASSIGN_OR_RETURN(projection.linear_,
                           Linear::Read(weights, letter + "_proj", options.out, options.in));
  if (options.taps == 0) return projection;
  FERMATA_ASSIGN_OR_RETURN(projection.convolution_,
                           ShortConvolution::Read(weights, letter + "_conv1d",
                                                  {.width = options.out,
                                                   .taps = options.taps,
                                                   .bias = options.convolution_bias,
                                                   .activation = options.activation},
                                                  letter + "_conv", layout));
  return projection;
}

float* Projection::Apply(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                         Arena& arena) const {
  float* projected = linear_.Apply(x, rows, arena);
  if (!convolution_.has_value()) return projected;
  return convolution_->Apply(sequences, projected, rows, arena);
}

}  // namespace fermata
