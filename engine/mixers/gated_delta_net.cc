#include "engine/mixers/gated_delta_net.h"

#include <cmath>

#include "engine/base/status.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/layers/activation.h"
#include "engine/layers/heads.h"
#include "engine/layers/linear.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"
#include "engine/layers/time_step.h"

namespace fermata {
namespace {

constexpr float kL2Eps = 1e-6f;
constexpr int64_t kMaxHeadDim = int64_t{1} << 16;

struct Config {
  int64_t hidden_size = 0;
  int64_t num_qk_heads = 0;
  HeadSizes heads;  // Of v and of the state, for which q and k are repeated.
  ConvolutionConfig convolution;
  float beta_scale = 1;
  HeadOutputOptions output;

  int64_t group_size() const { return heads.num_heads / num_qk_heads; }
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  HeadSizes& heads = config.heads;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(config.num_qk_heads, reader.Int("num_heads", 1, kMaxHeads, 6));
  FERMATA_ASSIGN_OR_RETURN(heads.num_heads,
                           reader.Int("num_v_heads", 1, kMaxHeads, config.num_qk_heads));
  if (heads.num_heads % config.num_qk_heads != 0) {
    return reader.Error("num_v_heads", "is not a multiple of num_heads");
  }
  heads.num_kv_heads = heads.num_heads;
  FERMATA_ASSIGN_OR_RETURN(heads.key_dim, reader.Int("head_dim", 1, kMaxHeadDim, 256));
  FERMATA_ASSIGN_OR_RETURN(const double expand, reader.Number("expand_v", 1e-3, 1e3, 2));
  const double value_dim = static_cast<double>(heads.key_dim) * expand;
  heads.value_dim = std::llround(value_dim);
  if (std::abs(value_dim - static_cast<double>(heads.value_dim)) > 1e-5 * value_dim) {
    return reader.Error("expand_v", "head_dim · expand_v is not a whole number");
  }
  FERMATA_ASSIGN_OR_RETURN(config.convolution, ReadConvolution(reader, true));
  FERMATA_ASSIGN_OR_RETURN(const bool negative, reader.Bool("allow_neg_eigval", false));
  config.beta_scale = negative ? 2 : 1;
  FERMATA_ASSIGN_OR_RETURN(config.output, ReadHeadOutput(reader, "use_gate",
                                                         {.hidden_size = options.hidden_size,
                                                          .num_heads = heads.num_heads,
                                                          .head_dim = heads.value_dim,
                                                          .norm_names = {"o_norm"},
                                                          .gate = true}));
  reader.Ignore({"attn_mode"});
  return config;
}

class GatedDeltaNet : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override {
    return config_.num_qk_heads * config_.heads.key_dim +
           config_.heads.num_heads * config_.heads.value_dim;
  }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit GatedDeltaNet(const Config& config) : config_(config) {}

  // Each head of x [rows, num_qk_heads, head_dim] over its length, in place.
  void Normalise(float* x, int64_t rows) const {
    L2Norm(x, rows * config_.num_qk_heads, config_.heads.key_dim, kL2Eps, x);
  }
  // x [rows, num_qk_heads, head_dim] for each head of v: [rows, num_v_heads, head_dim], times
  // factor(i) of the i-th of all those heads.
  template <typename Factor>
  float* Repeat(const float* x, int64_t rows, Arena& arena, Factor factor) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  QkvProjection qkv_;
  Linear beta_;
  Linear step_;
  TimeStep decay_;
  HeadOutput output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> GatedDeltaNet::Create(const Config& config,
                                                             const MixerOptions& options) {
  auto mixer = std::unique_ptr<GatedDeltaNet>(new GatedDeltaNet(config));
  const WeightScope& weights = options.weights;
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = config.heads;
  mixer->S_offset_ = mixer->layout_.Add("S", {num_heads, key_dim, value_dim});
  // The activations are there with and without convolutions, so Forward applies them.
  FERMATA_ASSIGN_OR_RETURN(mixer->qkv_, QkvProjection::Read(weights,
                                                            {.in = config.hidden_size,
                                                             .q = config.num_qk_heads * key_dim,
                                                             .k = config.num_qk_heads * key_dim,
                                                             .v = num_heads * value_dim,
                                                             .convolution = config.convolution,
                                                             .activation = Activation::kIdentity},
                                                            mixer->layout_));
  FERMATA_ASSIGN_OR_RETURN(mixer->beta_,
                           Linear::Read(weights, "b_proj", num_heads, config.hidden_size));
  FERMATA_ASSIGN_OR_RETURN(mixer->step_,
                           Linear::Read(weights, "a_proj", num_heads, config.hidden_size));
  FERMATA_ASSIGN_OR_RETURN(mixer->decay_, TimeStep::Read(weights, {.num_heads = num_heads}));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, HeadOutput::Read(weights, config.output));
  return mixer;
}

template <typename Factor>
float* GatedDeltaNet::Repeat(const float* x, int64_t rows, Arena& arena, Factor factor) const {
  const int64_t dim = config_.heads.key_dim;
  const int64_t heads = rows * config_.heads.num_heads;
  float* repeated = arena.Floats(heads * dim);
  for (int64_t i = 0; i < heads; ++i) {
    Scale(factor(i), x + i / config_.group_size() * dim, repeated + i * dim, dim);
  }
  return repeated;
}

void GatedDeltaNet::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                            float* out, const MixerContext& context) const {
  const HeadSizes& heads = config_.heads;
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = heads;
  const int64_t qk_size = rows * config_.num_qk_heads * key_dim;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* gate = output_.AddGate(x, inputs);
  float* beta = inputs.Add(beta_, x, Activated(Activation::kSigmoid));
  float* step = inputs.Add(step_, x);
  const auto [q, k, v] = qkv_.Apply(sequences, x, rows, arena, inputs);
  Activate(Activation::kSilu, q, qk_size);
  Activate(Activation::kSilu, k, qk_size);
  Activate(Activation::kSilu, v, rows * num_heads * value_dim);
  Normalise(q, rows);
  Normalise(k, rows);

  Scale(config_.beta_scale, beta, rows * num_heads);
  const float* decay = decay_.Apply(step, rows, arena);

  const float scale = 1.0f / std::sqrt(static_cast<float>(key_dim));
  const HeadRows all{.q = Repeat(q, rows, arena, [&](int64_t) { return scale; }),
                     .k = Repeat(k, rows, arena, [&](int64_t i) { return beta[i]; }),
                     .v = v,
                     .o = arena.Floats(rows * num_heads * value_dim)};
  const float* decayed_keys = Repeat(k, rows, arena, [&](int64_t i) { return decay[i]; });
  RunHeads(sequences, {.num_heads = num_heads, .state_floats = key_dim * value_dim, .rows = rows},
           context.form, [&](const SequenceRows& sequence, int64_t head) {
             DeltaRun run = MakeRun<DeltaRun>(sequence, head, heads, all, S_offset_);
             run.a = decayed_keys + (run.k - all.k);
             run.a_stride = run.k_stride;
             run.decay = decay + sequence.begin * heads.num_heads + head;
             run.decay_stride = heads.num_heads;
             return run;
           });
  output_.Apply(gate, rows, all.o, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateGatedDeltaNet(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return GatedDeltaNet::Create(config, options);
}

}  // namespace fermata
