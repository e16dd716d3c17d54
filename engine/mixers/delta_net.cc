#include "engine/mixers/delta_net.h"

#include <cmath>
#include <optional>

#include "engine/base/status.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/layers/activation.h"
#include "engine/layers/heads.h"
#include "engine/layers/linear.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"

namespace fermata {
namespace {

constexpr float kL2Eps = 1e-6f;

struct Config {
  int64_t hidden_size = 0;
  HeadSizes heads;
  ConvolutionConfig convolution;
  Activation qk_activation = Activation::kSilu;
  bool l2_norm = true;  // Else by the sum.
  bool beta = true;
  float beta_scale = 1;
  HeadOutputOptions output;
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(
      config.heads, ReadHeadSizes(reader, config.hidden_size, {.num_heads = 16, .grouped = false}));
  FERMATA_ASSIGN_OR_RETURN(config.convolution, ReadConvolution(reader, true));
  FERMATA_ASSIGN_OR_RETURN(const size_t activation,
                           reader.Choice("qk_activation", {"silu", "relu", "elu", "identity"}));
  constexpr Activation kActivations[] = {Activation::kSilu, Activation::kRelu,
                                         Activation::kEluPlusOne, Activation::kIdentity};
  config.qk_activation = kActivations[activation];
  FERMATA_ASSIGN_OR_RETURN(const size_t norm, reader.Choice("qk_norm", {"l2", "sum"}));
  config.l2_norm = norm == 0;
  FERMATA_ASSIGN_OR_RETURN(config.beta, reader.Bool("use_beta", true));
  FERMATA_ASSIGN_OR_RETURN(const bool negative, reader.Bool("allow_neg_eigval", false));
  config.beta_scale = negative ? 2 : 1;
  FERMATA_ASSIGN_OR_RETURN(config.output, ReadHeadOutput(reader, "use_gate",
                                                         {.hidden_size = options.hidden_size,
                                                          .num_heads = config.heads.num_heads,
                                                          .head_dim = config.heads.value_dim,
                                                          .norm_names = {"o_norm"}}));
  reader.Ignore({"attn_mode", "use_output_norm"});
  return config;
}

class DeltaNet : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override { return config_.heads.kv_floats(); }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit DeltaNet(const Config& config) : config_(config) {}

  // Activates and normalises each head of x [rows, num_heads, head_k_dim], in place.
  void Normalise(float* x, int64_t rows) const;
  // β k.
  const float* BetaKeys(const float* beta, const float* k, int64_t rows, Arena& arena) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  QkvProjection qkv_;
  std::optional<Linear> beta_;
  HeadOutput output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> DeltaNet::Create(const Config& config,
                                                        const MixerOptions& options) {
  auto mixer = std::unique_ptr<DeltaNet>(new DeltaNet(config));
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = config.heads;
  mixer->S_offset_ = mixer->layout_.Add("S", {num_heads, key_dim, value_dim});
  // The activations are there with and without convolutions, so Forward applies them.
  FERMATA_ASSIGN_OR_RETURN(mixer->qkv_, QkvProjection::Read(options.weights,
                                                            {.in = config.hidden_size,
                                                             .q = num_heads * key_dim,
                                                             .k = num_heads * key_dim,
                                                             .v = num_heads * value_dim,
                                                             .convolution = config.convolution,
                                                             .activation = Activation::kIdentity},
                                                            mixer->layout_));
  if (config.beta) {
    FERMATA_ASSIGN_OR_RETURN(
        mixer->beta_, Linear::Read(options.weights, "b_proj", num_heads, config.hidden_size));
  }
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, HeadOutput::Read(options.weights, config.output));
  return mixer;
}

void DeltaNet::Normalise(float* x, int64_t rows) const {
  const int64_t heads = rows * config_.heads.num_heads;
  const int64_t dim = config_.heads.key_dim;
  Activate(config_.qk_activation, x, heads * dim);
  if (config_.l2_norm) return L2Norm(x, heads, dim, kL2Eps, x);
  for (int64_t head = 0; head < heads; ++head) {
    Scale(1.0f / Sum(x + head * dim, dim), x + head * dim, dim);
  }
}

const float* DeltaNet::BetaKeys(const float* beta, const float* k, int64_t rows,
                                Arena& arena) const {
  const int64_t heads = rows * config_.heads.num_heads;
  const int64_t dim = config_.heads.key_dim;
  float* scaled = arena.Floats(heads * dim);
  for (int64_t head = 0; head < heads; ++head) {
    const float factor = config_.beta_scale * (beta == nullptr ? 1.0f : beta[head]);
    Scale(factor, k + head * dim, scaled + head * dim, dim);
  }
  return scaled;
}

void DeltaNet::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                       float* out, const MixerContext& context) const {
  const HeadSizes& heads = config_.heads;
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = heads;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* gate = output_.AddGate(x, inputs);
  const float* beta =
      beta_.has_value() ? inputs.Add(*beta_, x, Activated(Activation::kSigmoid)) : nullptr;
  const auto [q, k, v] = qkv_.Apply(sequences, x, rows, arena, inputs);
  Normalise(q, rows);
  Normalise(k, rows);
  Activate(Activation::kSilu, v, rows * num_heads * value_dim);
  Scale(1.0f / std::sqrt(static_cast<float>(key_dim)), q, rows * num_heads * key_dim);

  const HeadRows all{.q = q,
                     .k = BetaKeys(beta, k, rows, arena),
                     .v = v,
                     .o = arena.Floats(rows * num_heads * value_dim)};
  RunHeads(sequences, {.num_heads = num_heads, .state_floats = key_dim * value_dim, .rows = rows},
           context.form, [&, keys = k](const SequenceRows& sequence, int64_t head) {
             DeltaRun run = MakeRun<DeltaRun>(sequence, head, heads, all, S_offset_);
             run.a = keys + (run.k - all.k);
             run.a_stride = run.k_stride;
             return run;
           });
  output_.Apply(gate, rows, all.o, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateDeltaNet(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return DeltaNet::Create(config, options);
}

}  // namespace fermata
