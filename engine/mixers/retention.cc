#include "engine/mixers/retention.h"

#include <cmath>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/rotary.h"
#include "engine/layers/activation.h"
#include "engine/layers/heads.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"

namespace fermata {
namespace {

constexpr double kRotaryBase = 10000;

struct Config {
  int64_t hidden_size = 0;
  HeadSizes heads;
  ConvolutionConfig convolution;
  Activation feature_map = Activation::kIdentity;
  HeadOutputOptions output;
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  constexpr auto kNames = ActivationNames::kTransformers;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(
      config.heads, ReadHeadSizes(reader, config.hidden_size, {.num_heads = 8, .expand_v = 2}));
  if (config.heads.key_dim % 2 != 0) {
    return reader.Error("expand_k", "makes heads of an odd size, which can not be rotated");
  }
  FERMATA_ASSIGN_OR_RETURN(config.convolution, ReadConvolution(reader, false));
  const auto stored = [&](const char* letter) {
    return options.weights.Child(std::string(letter) + "_conv1d").Has("weight");
  };
  if (!stored("q") && !stored("k") && !stored("v")) config.convolution.taps = 0;
  FERMATA_ASSIGN_OR_RETURN(config.feature_map,
                           ReadActivation(reader, "feature_map", "linear", kNames));
  FERMATA_ASSIGN_OR_RETURN(config.output,
                           ReadHeadOutput(reader, "use_output_gate",
                                          {.hidden_size = options.hidden_size,
                                           .num_heads = config.heads.num_heads,
                                           .head_dim = config.heads.value_dim,
                                           .norm_names = {"g_norm_swish_gate", "g_norm"},
                                           .gate = true}));
  FERMATA_ASSIGN_OR_RETURN(config.output.norm_weight, ReadElementwiseAffine(reader));
  FERMATA_ASSIGN_OR_RETURN(config.output.gate_activation,
                           ReadActivation(reader, "hidden_act", "swish", kNames));
  reader.Ignore({"attn_mode", "fuse_norm"});
  return config;
}

class Retention : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override { return heads_.kv_floats(); }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit Retention(const Config& config)
      : heads_(config.heads),
        feature_map_(config.feature_map),
        rotary_(config.heads.key_dim, kRotaryBase) {}

  HeadSizes heads_;
  Activation feature_map_;
  Rotary rotary_;
  std::vector<float> decay_;  // γ of each head.
  StateLayout layout_;
  int64_t S_offset_ = 0;
  QkvProjection qkv_;
  HeadOutput output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Retention::Create(const Config& config,
                                                         const MixerOptions& options) {
  auto mixer = std::unique_ptr<Retention>(new Retention(config));
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = config.heads;
  for (int64_t head = 0; head < num_heads; ++head) {
    mixer->decay_.push_back(static_cast<float>(1 - std::exp2(-5.0 - static_cast<double>(head))));
  }
  mixer->S_offset_ = mixer->layout_.Add("S", {num_heads, key_dim, value_dim});
  FERMATA_ASSIGN_OR_RETURN(mixer->qkv_, QkvProjection::Read(options.weights,
                                                            {.in = config.hidden_size,
                                                             .q = num_heads * key_dim,
                                                             .k = num_kv_heads * key_dim,
                                                             .v = num_kv_heads * value_dim,
                                                             .convolution = config.convolution},
                                                            mixer->layout_));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, HeadOutput::Read(options.weights, config.output));
  return mixer;
}

void Retention::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                        float* out, const MixerContext& context) const {
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = heads_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* gate = output_.AddGate(x, inputs);
  const auto [q, k, v] = qkv_.Apply(sequences, x, rows, arena, inputs);
  Activate(feature_map_, q, rows * num_heads * key_dim);
  Activate(feature_map_, k, rows * num_kv_heads * key_dim);
  Rotate(rotary_, sequences, num_heads, q);
  Rotate(rotary_, sequences, num_kv_heads, k);
  Scale(1.0f / std::sqrt(static_cast<float>(key_dim)), q, rows * num_heads * key_dim);

  const HeadRows all{.q = q, .k = k, .v = v, .o = arena.Floats(rows * num_heads * value_dim)};
  RunHeads(sequences, {.num_heads = num_heads, .state_floats = key_dim * value_dim, .rows = rows},
           context.form, [&](const SequenceRows& sequence, int64_t head) {
             DecayRun run = MakeRun<DecayRun>(sequence, head, heads_, all, S_offset_);
             run.decay = &decay_[head];
             return run;
           });
  output_.Apply(gate, rows, all.o, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRetention(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Retention::Create(config, options);
}

}  // namespace fermata
