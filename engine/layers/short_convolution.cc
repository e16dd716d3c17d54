#include "engine/layers/short_convolution.h"

#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/kernels/block_product.h"
#include "engine/kernels/convolution.h"
#include "engine/kernels/elementwise.h"

namespace fermata {

absl::StatusOr<ShortConvolution> ShortConvolution::Read(const WeightScope& weights,
                                                        std::string_view name,
                                                        const ShortConvolutionOptions& options,
                                                        std::string state, StateLayout& layout) {
  const WeightScope module = weights.Child(name);
  const auto [width, taps, bias, activation] = options;
  ShortConvolution convolution;
  convolution.options_ = options;
  FERMATA_ASSIGN_OR_RETURN(const AlignedBuffer<float> stored,
                           module.Read("weight", {width, 1, taps}));
  convolution.taps_ = AlignedBuffer<float>(width * taps);
  Transpose(stored.data(), taps, width, taps, convolution.taps_.data(), width);
  if (bias) {
    FERMATA_ASSIGN_OR_RETURN(convolution.bias_, module.Read("bias", {width}));
  }
  convolution.state_offset_ = layout.Add(std::move(state), {taps - 1, width});
  return convolution;
}

float* ShortConvolution::Apply(std::span<const SequenceRows> sequences, const float* x,
                               int64_t rows, Arena& arena) const {
  const int64_t width = options_.width;
  float* out = arena.Floats(rows * width);
  const auto count = static_cast<int64_t>(sequences.size());
  ParallelFor(count, rows * width * options_.taps / count, [&](int64_t begin, int64_t end) {
    for (const SequenceRows& sequence : sequences.subspan(begin, end - begin)) {
      const int64_t at = sequence.begin * width;
      Convolve({.weight = taps_.data(), .taps = options_.taps, .dim = width}, x + at,
               sequence.count, sequence.state + state_offset_, out + at);
      for (int64_t t = 0; t < sequence.count && !bias_.empty(); ++t) {
        Add(bias_.data(), out + at + t * width, width);
      }
      Activate(options_.activation, out + at, sequence.count * width);
    }
  });
  return out;
}

}  // namespace fermata
