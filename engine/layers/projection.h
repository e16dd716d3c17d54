#ifndef FERMATA_ENGINE_LAYERS_PROJECTION_H_
#define FERMATA_ENGINE_LAYERS_PROJECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/arena.h"
#include "engine/base/config_reader.h"
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

  // What the product of x [rows, in] will be, with the others of `group`, in scratch memory.
  float* AddProduct(const float* x, LinearGroup& group) const { return group.Add(linear_, x); }
  // [rows, out] for that product, the same memory or other of scratch. Moves the sequences' states.
  float* Convolve(std::span<const SequenceRows> sequences, float* product, int64_t rows,
                  Arena& arena) const;

 private:
  Linear linear_;
  std::optional<ShortConvolution> convolution_;
};

// Short convolutions as configs give them.
//
// | config         | default    | meaning             |
// | -------------- | ---------- | ------------------- |
// | use_short_conv | `fallback` | whether there are   |
// | conv_size      | 4          | their taps          |
// | conv_bias      | false      | whether with biases |
struct ConvolutionConfig {
  int64_t taps = 0;  // 0: none.
  bool bias = false;
};
absl::StatusOr<ConvolutionConfig> ReadConvolution(ConfigReader& config, bool fallback);

struct QkvOptions {
  int64_t in = 0;
  // Of all heads together.
  int64_t q = 0;
  int64_t k = 0;
  int64_t v = 0;
  ConvolutionConfig convolution;
  Activation activation = Activation::kSilu;  // After the convolutions.
};

// The three of them. Immutable and thread-safe.
class QkvProjection {
 public:
  static absl::StatusOr<QkvProjection> Read(const WeightScope& weights, const QkvOptions& options,
                                            StateLayout& layout);

  // Of all rows, in scratch memory. Moves the sequences' states. The products are computed with
  // those that `group` has.
  struct Rows {
    float* q = nullptr;
    float* k = nullptr;
    float* v = nullptr;
  };
  Rows Apply(std::span<const SequenceRows> sequences, const float* x, int64_t rows, Arena& arena,
             LinearGroup& group) const;

 private:
  Projection q_, k_, v_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_PROJECTION_H_
