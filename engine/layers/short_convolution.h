#ifndef FERMATA_ENGINE_LAYERS_SHORT_CONVOLUTION_H_
#define FERMATA_ENGINE_LAYERS_SHORT_CONVOLUTION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/arena.h"
#include "engine/base/weights.h"
#include "engine/layers/activation.h"
#include "engine/layers/sequence.h"

namespace fermata {

struct ShortConvolutionOptions {
  int64_t width = 0;  // Channels.
  int64_t taps = 0;   // Tokens that one output sees, the current one included; at least 1.
  bool bias = false;
  Activation activation = Activation::kSilu;
};

// A depthwise causal convolution over the last few tokens, then an activation. Its state is the last
// taps - 1 inputs, oldest first. Immutable and thread-safe.
class ShortConvolution {
 public:
  // Reads `name`.weight [width, 1, taps], whose last tap weighs the current token, and with bias
  // `name`.bias [width]. Adds `state`, [taps - 1, width], to the layout.
  static absl::StatusOr<ShortConvolution> Read(const WeightScope& weights, std::string_view name,
                                               const ShortConvolutionOptions& options,
                                               std::string state, StateLayout& layout);

  // [rows, width] for x [rows, width], in scratch memory. Moves the sequences' states.
  float* Apply(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
               Arena& arena) const;

 private:
  ShortConvolutionOptions options_;
  AlignedBuffer<float> taps_;  // [taps, width]
  AlignedBuffer<float> bias_;  // [width], or empty.
  int64_t state_offset_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_SHORT_CONVOLUTION_H_
