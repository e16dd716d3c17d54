#include "engine/mixers/gla.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/activation.h"
#include "engine/layers/heads.h"
#include "engine/layers/linear.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"

namespace fermata {
namespace {

constexpr int64_t kMaxRank = int64_t{1} << 16;

struct Config {
  int64_t hidden_size = 0;
  HeadSizes heads;
  ConvolutionConfig convolution;
  Activation feature_map = Activation::kIdentity;
  int64_t gate_rank = 0;
  float gate_normalizer = 1;
  float clamp_min = -std::numeric_limits<float>::infinity();
  HeadOutputOptions output;
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(
      config.heads, ReadHeadSizes(reader, config.hidden_size, {.num_heads = 4, .expand_k = 0.5}));
  FERMATA_ASSIGN_OR_RETURN(config.convolution, ReadConvolution(reader, false));
  FERMATA_ASSIGN_OR_RETURN(config.feature_map, ReadActivation(reader, "feature_map", "identity"));
  FERMATA_ASSIGN_OR_RETURN(config.gate_rank, reader.Int("gate_low_rank_dim", 1, kMaxRank, 16));
  FERMATA_ASSIGN_OR_RETURN(const double normalizer,
                           reader.Number("gate_logit_normalizer", 1e-3, 1e6, 16));
  config.gate_normalizer = static_cast<float>(normalizer);
  if (reader.Has("clamp_min")) {
    FERMATA_ASSIGN_OR_RETURN(const double clamp_min, reader.Number("clamp_min", -1e30, 0));
    config.clamp_min = static_cast<float>(clamp_min);
  }
  FERMATA_ASSIGN_OR_RETURN(config.output,
                           ReadHeadOutput(reader, "use_output_gate",
                                          {.hidden_size = options.hidden_size,
                                           .num_heads = config.heads.num_heads,
                                           .head_dim = config.heads.value_dim,
                                           .norm_names = {"g_norm_swish_gate", "g_norm"},
                                           .gate = true}));
  FERMATA_ASSIGN_OR_RETURN(config.output.norm_weight, ReadElementwiseAffine(reader));
  FERMATA_ASSIGN_OR_RETURN(config.output.gate_activation,
                           ReadActivation(reader, "hidden_act", "swish"));
  reader.Ignore({"attn_mode", "fuse_norm", "use_gk", "use_gv"});
  return config;
}

class Gla : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override { return config_.heads.kv_floats(); }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit Gla(const Config& config) : config_(config) {}

  // w [rows, num_kv_heads, head_k_dim].
  const float* Decay(const float* x, int64_t rows, Arena& arena) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  QkvProjection qkv_;
  LowRank gate_;
  HeadOutput output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Gla::Create(const Config& config,
                                                   const MixerOptions& options) {
  auto mixer = std::unique_ptr<Gla>(new Gla(config));
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = config.heads;
  mixer->S_offset_ = mixer->layout_.Add("S", {num_heads, key_dim, value_dim});
  FERMATA_ASSIGN_OR_RETURN(mixer->qkv_, QkvProjection::Read(options.weights,
                                                            {.in = config.hidden_size,
                                                             .q = num_heads * key_dim,
                                                             .k = num_kv_heads * key_dim,
                                                             .v = num_kv_heads * value_dim,
                                                             .convolution = config.convolution},
                                                            mixer->layout_));
  FERMATA_ASSIGN_OR_RETURN(mixer->gate_, LowRank::Read(options.weights, "gk_proj.0", "gk_proj.1",
                                                       {.in = config.hidden_size,
                                                        .rank = config.gate_rank,
                                                        .out = num_kv_heads * key_dim,
                                                        .bias = true}));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, HeadOutput::Read(options.weights, config.output));
  return mixer;
}

const float* Gla::Decay(const float* inner, int64_t rows, Arena& arena) const {
  LinearGroup group(rows, arena);
  const float* w = gate_.AddUp(inner, group, [this](int64_t, int64_t, float* piece, int64_t count) {
    Activate(Activation::kLogSigmoid, piece, count);
    Scale(1.0f / config_.gate_normalizer, piece, count);
    for (int64_t i = 0; i < count; ++i) piece[i] = std::max(piece[i], config_.clamp_min);
    Exp(piece, piece, count);
  });
  group.Run();
  return w;
}

void Gla::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
                  const MixerContext& context) const {
  const HeadSizes& heads = config_.heads;
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = heads;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* gate = output_.AddGate(x, inputs);
  const float* inner = gate_.AddDown(x, inputs);
  const auto [q, k, v] = qkv_.Apply(sequences, x, rows, arena, inputs);
  Activate(config_.feature_map, q, rows * num_heads * key_dim);
  Activate(config_.feature_map, k, rows * num_kv_heads * key_dim);
  Scale(1.0f / std::sqrt(static_cast<float>(key_dim)), q, rows * num_heads * key_dim);
  const float* decay = Decay(inner, rows, arena);

  const HeadRows all{.q = q, .k = k, .v = v, .o = arena.Floats(rows * num_heads * value_dim)};
  RunHeads(sequences, {.num_heads = num_heads, .state_floats = key_dim * value_dim, .rows = rows},
           context.form, [&](const SequenceRows& sequence, int64_t head) {
             DecayRun run = MakeRun<DecayRun>(sequence, head, heads, all, S_offset_);
             run.decay = decay + (run.k - all.k);  // As k lies.
             run.decay_stride = run.k_stride;
             run.decay_per_channel = true;
             return run;
           });
  output_.Apply(gate, rows, all.o, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateGla(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Gla::Create(config, options);
}

}  // namespace fermata
