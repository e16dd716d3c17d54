#include "engine/layers/heads.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// The width of one head, when all heads together are `expand` times as wide as the model.
absl::StatusOr<int64_t> HeadDim(ConfigReader& config, const std::string& field, double fallback,
                                int64_t hidden_size, int64_t num_heads) {
  FERMATA_ASSIGN_OR_RETURN(const double expand, config.Number(field, 1e-3, 1e3, fallback));
  const auto width = static_cast<int64_t>(static_cast<double>(hidden_size) * expand);
  if (width == 0 || width % num_heads != 0) {
    return config.Error(field, "hidden_size · " + field + " = " + std::to_string(width) +
                                   " is not a multiple of num_heads");
  }
  return width / num_heads;
}

}  // namespace

absl::StatusOr<HeadSizes> ReadHeadSizes(ConfigReader& config, int64_t hidden_size,
                                        const HeadDefaults& defaults) {
  HeadSizes sizes;
  FERMATA_ASSIGN_OR_RETURN(sizes.num_heads,
                           config.Int("num_heads", 1, kMaxHeads, defaults.num_heads));
  sizes.num_kv_heads = sizes.num_heads;
  if (defaults.grouped) {
    FERMATA_ASSIGN_OR_RETURN(sizes.num_kv_heads,
                             config.Int("num_kv_heads", 1, sizes.num_heads, sizes.num_heads));
  }
  if (sizes.num_heads % sizes.num_kv_heads != 0) {
    return config.Error("num_kv_heads", "does not divide num_heads");
  }
  FERMATA_ASSIGN_OR_RETURN(
      sizes.key_dim, HeadDim(config, "expand_k", defaults.expand_k, hidden_size, sizes.num_heads));
  FERMATA_ASSIGN_OR_RETURN(sizes.value_dim, HeadDim(config, "expand_v", defaults.expand_v,
                                                    hidden_size, sizes.num_heads));
  return sizes;
}

void Rotate(const Rotary& rotary, std::span<const SequenceRows> sequences, int64_t heads,
            float* x) {
  for (const SequenceRows& sequence : sequences) {
    for (int64_t t = 0; t < sequence.count; ++t) {
      rotary.Rotate(sequence.position + t, heads, x + (sequence.begin + t) * heads * rotary.dim());
    }
  }
}

absl::StatusOr<HeadOutputOptions> ReadHeadOutput(ConfigReader& config, std::string_view gate_field,
                                                 HeadOutputOptions defaults) {
  FERMATA_ASSIGN_OR_RETURN(const double eps, config.Number("norm_eps", 0, 1, 1e-6));
  defaults.norm_eps = static_cast<float>(eps);
  FERMATA_ASSIGN_OR_RETURN(defaults.gate, config.Bool(gate_field, defaults.gate));
  return defaults;
}

absl::StatusOr<bool> ReadElementwiseAffine(ConfigReader& config) {
  return config.Bool("elementwise_affine", !config.IsNull("elementwise_affine"));
}

absl::StatusOr<HeadOutput> HeadOutput::Read(const WeightScope& weights,
                                            const HeadOutputOptions& options) {
  const int64_t width = options.num_heads * options.head_dim;
  HeadOutput output;
  output.num_heads_ = options.num_heads;
  output.width_ = width;
  output.gate_activation_ = options.gate_activation;
  if (!options.norm_names.empty()) {
    const auto& names = options.norm_names;
    const auto stored = std::ranges::find_if(
        names, [&](std::string_view name) { return weights.Child(name).Has("weight"); });
    FERMATA_ASSIGN_OR_RETURN(
        output.norm_,
        Norm::Read(
            weights, stored == names.end() ? names.front() : *stored,
            {.dim = options.head_dim, .eps = options.norm_eps, .weight = options.norm_weight}));
  }
  if (options.gate) {
    FERMATA_ASSIGN_OR_RETURN(output.gate_,
                             Linear::Read(weights, "g_proj", width, options.hidden_size));
  }
  FERMATA_ASSIGN_OR_RETURN(output.output_,
                           Linear::Read(weights, "o_proj", options.hidden_size, width));
  return output;
}

float* HeadOutput::AddGate(const float* x, LinearGroup& group) const {
  return gate_.has_value() ? group.Add(*gate_, x) : nullptr;
}

void HeadOutput::Apply(float* gate, int64_t rows, float* o, float* y) const {
  if (norm_.has_value() || gate != nullptr) {
    ParallelFor(rows, width_ * kGateWork, [&](int64_t begin, int64_t end) {
      float* o_rows = o + begin * width_;
      if (norm_.has_value()) norm_->Apply(o_rows, (end - begin) * num_heads_, o_rows);
      if (gate == nullptr) return;
      ActivateAndMultiply(gate_activation_, gate + begin * width_, o_rows, (end - begin) * width_);
    });
  }
  output_.Apply(o, rows, y);
}

}  // namespace fermata
