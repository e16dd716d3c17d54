#include "engine/mixers/mamba2.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/activation.h"
#include "engine/layers/heads.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/layers/recurrence.h"
#include "engine/layers/short_convolution.h"
#include "engine/layers/time_step.h"

namespace fermata {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 16;
constexpr int64_t kMaxTaps = 64;

struct Config {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t num_groups = 0;
  int64_t state_size = 0;
  ShortConvolutionOptions convolution;
  bool bias = false;
  ConfigReader::Interval step_limit;
  std::optional<NormOptions> norm;
  bool norm_before_gate = false;

  int64_t width() const { return num_heads * head_dim; }
};

absl::Status ReadSizes(ConfigReader& reader, bool fla, Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const double expand, reader.Number("expand", 1e-3, 1e3, 2));
  const auto width = static_cast<int64_t>(static_cast<double>(config.hidden_size) * expand);
  FERMATA_ASSIGN_OR_RETURN(config.head_dim, reader.Int("head_dim", 1, kMaxDim, 64));
  FERMATA_ASSIGN_OR_RETURN(
      config.num_heads,
      reader.Int("num_heads", 1, kMaxHeads, std::max<int64_t>(width / config.head_dim, 1)));
  if (config.width() != width) {
    return reader.Error("num_heads", "num_heads · head_dim = " + std::to_string(config.width()) +
                                         " is not hidden_size · expand = " + std::to_string(width));
  }
  FERMATA_ASSIGN_OR_RETURN(config.num_groups,
                           reader.Int("n_groups", 1, config.num_heads, fla ? 1 : 8));
  if (config.num_heads % config.num_groups != 0) {
    return reader.Error("n_groups", "does not divide num_heads");
  }
  FERMATA_ASSIGN_OR_RETURN(config.state_size, reader.Int("state_size", 1, kMaxDim, 128));
  return absl::OkStatus();
}

absl::Status ReadNorm(const MixerOptions& options, bool fla, Config& config) {
  ConfigReader& reader = *options.config;
  FERMATA_ASSIGN_OR_RETURN(const double eps,
                           reader.Number(fla ? "norm_eps" : "layer_norm_epsilon", 0, 1, 1e-5));
  FERMATA_ASSIGN_OR_RETURN(const bool per_group, reader.Bool("norm_per_group", false));
  FERMATA_ASSIGN_OR_RETURN(const bool norm_before_gate, reader.Bool("norm_before_gate", false));
  config.norm_before_gate = per_group && norm_before_gate;
  FERMATA_ASSIGN_OR_RETURN(const bool norm, reader.Bool("rms_norm", true));
  if (!norm && !options.weights.Has("norm.weight")) return absl::OkStatus();
  const int64_t groups = per_group ? config.num_groups : 1;
  config.norm =
      NormOptions{.dim = config.width() / groups, .groups = groups, .eps = static_cast<float>(eps)};
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  const bool fla = reader.Has("norm_eps");
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_RETURN_IF_ERROR(ReadSizes(reader, fla, config));
  FERMATA_ASSIGN_OR_RETURN(config.bias, reader.Bool("use_bias", false));
  ShortConvolutionOptions& convolution = config.convolution;
  convolution.width = config.width() + 2 * config.num_groups * config.state_size;
  FERMATA_ASSIGN_OR_RETURN(convolution.taps, reader.Int("conv_kernel", 1, kMaxTaps, 4));
  FERMATA_ASSIGN_OR_RETURN(convolution.bias, reader.Bool("use_conv_bias", true));
  FERMATA_ASSIGN_OR_RETURN(
      convolution.activation,
      ReadActivation(reader, "hidden_act", "silu",
                     fla ? ActivationNames::kFla : ActivationNames::kTransformers));
  FERMATA_ASSIGN_OR_RETURN(
      config.step_limit,
      reader.ReadInterval(reader.Has("dt_limit") ? "dt_limit" : "time_step_limit",
                          {0, std::numeric_limits<double>::infinity()}));
  FERMATA_RETURN_IF_ERROR(ReadNorm(options, fla, config));
  FERMATA_ASSIGN_OR_RETURN(const bool wide_D, reader.Bool("D_has_hdim", false));
  if (wide_D) return reader.Error("D_has_hdim", "a D for each channel is not known");
  reader.Ignore({"A_init_range", "chunk_size", "conv_init", "dt_init_floor", "dt_max", "dt_min",
                 "intermediate_size", "rescale_prenorm_residual", "residual_in_fp32",
                 "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
                 "time_step_rank", "time_step_scale"});
  return config;
}

class Mamba2 : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override {
    return config_.num_groups * config_.state_size + config_.width();
  }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit Mamba2(const Config& config) : config_(config) {}

  // Of all rows. B and C are parts of rows of the convolution's width.
  struct Rows {
    const float* B = nullptr;
    const float* C = nullptr;
    const float* decay = nullptr;  // α [rows, num_heads]
    float* steps = nullptr;        // Δ x [rows, num_heads, head_dim]
    float* y = nullptr;            // [rows, num_heads, head_dim]
  };

  // The i-th of all heads of x, which is the first part of rows of the convolution's width.
  const float* Head(const float* x, int64_t i) const {
    return x + i / config_.num_heads * config_.convolution.width +
           i % config_.num_heads * config_.head_dim;
  }
  DecayRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;
  // y, gated by z [rows, d] and normalised, in place; z is left with unspecified values.
  void GateAndNormalise(float* z, int64_t rows, float* y) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  Linear in_z_, in_xBC_, in_step_;
  ShortConvolution convolution_;
  TimeStep step_;
  AlignedBuffer<float> D_;  // [num_heads]
  std::optional<Norm> norm_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Mamba2::Create(const Config& config,
                                                      const MixerOptions& options) {
  auto mixer = std::unique_ptr<Mamba2>(new Mamba2(config));
  const Config& c = mixer->config_;
  const WeightScope& weights = options.weights;
  mixer->S_offset_ = mixer->layout_.Add("S", {c.num_heads, c.state_size, c.head_dim});
  FERMATA_ASSIGN_OR_RETURN(
      std::vector<Linear> in,
      Linear::ReadParts(weights, "in_proj", {c.width(), c.convolution.width, c.num_heads},
                        c.hidden_size, c.bias));
  mixer->in_z_ = std::move(in[0]);
  mixer->in_xBC_ = std::move(in[1]);
  mixer->in_step_ = std::move(in[2]);
  FERMATA_ASSIGN_OR_RETURN(
      mixer->convolution_,
      ShortConvolution::Read(weights, "conv1d", c.convolution, "conv", mixer->layout_));
  FERMATA_ASSIGN_OR_RETURN(mixer->step_, TimeStep::Read(weights, {.num_heads = c.num_heads,
                                                                  .low = c.step_limit.low,
                                                                  .high = c.step_limit.high}));
  FERMATA_ASSIGN_OR_RETURN(mixer->D_, weights.Read("D", {c.num_heads}));
  if (c.norm.has_value()) {
    FERMATA_ASSIGN_OR_RETURN(mixer->norm_, Norm::Read(weights, "norm", *c.norm));
  }
  FERMATA_ASSIGN_OR_RETURN(mixer->output_,
                           Linear::Read(weights, "out_proj", c.hidden_size, c.width(), c.bias));
  return mixer;
}

DecayRun Mamba2::Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const {
  const Config& c = config_;
  const int64_t stride = c.convolution.width;
  const int64_t group = head / (c.num_heads / c.num_groups);
  const int64_t BC = sequence.begin * stride + group * c.state_size;
  const int64_t xy = sequence.begin * c.width() + head * c.head_dim;
  return {.count = sequence.count,
          .key_dim = c.state_size,
          .value_dim = c.head_dim,
          .q = rows.C + BC,
          .q_stride = stride,
          .k = rows.B + BC,
          .k_stride = stride,
          .v = rows.steps + xy,
          .v_stride = c.width(),
          .o = rows.y + xy,
          .o_stride = c.width(),
          .decay = rows.decay + sequence.begin * c.num_heads + head,
          .decay_stride = c.num_heads,
          .S = sequence.state + S_offset_ + head * c.state_size * c.head_dim};
}

void Mamba2::GateAndNormalise(float* z, int64_t rows, float* y) const {
  const int64_t size = rows * config_.width();
  if (norm_.has_value() && config_.norm_before_gate) norm_->Apply(y, rows, y);
  ActivateAndMultiply(Activation::kSilu, z, y, size);
  if (norm_.has_value() && !config_.norm_before_gate) norm_->Apply(y, rows, y);
}

void Mamba2::Forward(std::span<const SequenceRows> sequences, const float* u, int64_t rows,
                     float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* z = inputs.Add(in_z_, u);
  const float* xBC = inputs.Add(in_xBC_, u);
  float* step = inputs.Add(in_step_, u);
  inputs.Run();
  const float* decay = step_.Apply(step, rows, arena);
  const float* x = convolution_.Apply(sequences, xBC, rows, arena);
  const Rows all{.B = x + c.width(),
                 .C = x + c.width() + c.num_groups * c.state_size,
                 .decay = decay,
                 .steps = arena.Floats(rows * c.width()),
                 .y = arena.Floats(rows * c.width())};
  for (int64_t i = 0; i < rows * c.num_heads; ++i) {
    Scale(step[i], Head(x, i), all.steps + i * c.head_dim, c.head_dim);
  }
  RunHeads(sequences,
           {.num_heads = c.num_heads, .state_floats = c.state_size * c.head_dim, .rows = rows},
           context.form,
           [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  for (int64_t i = 0; i < rows * c.num_heads; ++i) {
    MultiplyAdd(D_[i % c.num_heads], Head(x, i), all.y + i * c.head_dim, c.head_dim);
  }
  GateAndNormalise(z, rows, all.y);
  output_.Apply(all.y, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateMamba2(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Mamba2::Create(config, options);
}

}  // namespace fermata
