#include "engine/layers/projection.h"

#include "engine/base/status.h"

namespace fermata {
namespace {

constexpr int64_t kMaxTaps = 64;

}  // namespace

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

float* Projection::Convolve(std::span<const SequenceRows> sequences, float* product, int64_t rows,
                            Arena& arena) const {
  if (!convolution_.has_value()) return product;
  return convolution_->Apply(sequences, product, rows, arena);
}

absl::StatusOr<ConvolutionConfig> ReadConvolution(ConfigReader& config, bool fallback) {
  FERMATA_ASSIGN_OR_RETURN(const bool convolve, config.Bool("use_short_conv", fallback));
  FERMATA_ASSIGN_OR_RETURN(const int64_t taps, config.Int("conv_size", 1, kMaxTaps, 4));
  FERMATA_ASSIGN_OR_RETURN(const bool bias, config.Bool("conv_bias", false));
  return ConvolutionConfig{.taps = convolve ? taps : 0, .bias = bias};
}

absl::StatusOr<QkvProjection> QkvProjection::Read(const WeightScope& weights,
                                                  const QkvOptions& options, StateLayout& layout) {
  ProjectionOptions each = {.in = options.in,
                            .out = options.q,
                            .taps = options.convolution.taps,
                            .convolution_bias = options.convolution.bias,
                            .activation = options.activation};
  QkvProjection projection;
  FERMATA_ASSIGN_OR_RETURN(projection.q_, Projection::Read(weights, "q", each, layout));
  each.out = options.k;
  FERMATA_ASSIGN_OR_RETURN(projection.k_, Projection::Read(weights, "k", each, layout));
  each.out = options.v;
  FERMATA_ASSIGN_OR_RETURN(projection.v_, Projection::Read(weights, "v", each, layout));
  return projection;
}

QkvProjection::Rows QkvProjection::Apply(std::span<const SequenceRows> sequences, const float* x,
                                         int64_t rows, Arena& arena, LinearGroup& group) const {
  float* q = q_.AddProduct(x, group);
  float* k = k_.AddProduct(x, group);
  float* v = v_.AddProduct(x, group);
  group.Run();
  return {.q = q_.Convolve(sequences, q, rows, arena),
          .k = k_.Convolve(sequences, k, rows, arena),
          .v = v_.Convolve(sequences, v, rows, arena)};
}

}  // namespace fermata
