#include "engine/mixers/rwkv6.h"

#include <string>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/layers/recurrence.h"
#include "engine/layers/token_shift.h"
#include "engine/mixers/rwkv_parts.h"

namespace fermata {
namespace {

struct Config {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_k_dim = 0;
  int64_t head_v_dim = 0;
  int64_t shift_rank = 0;
  int64_t decay_rank = 0;
  Activation gate = Activation::kSilu;
  float norm_eps = 0;
  bool norm_weights = true;

  int64_t key_dim() const { return num_heads * head_k_dim; }
  int64_t value_dim() const { return num_heads * head_v_dim; }
  HeadSizes heads() const { return {num_heads, num_heads, head_k_dim, head_v_dim}; }
};

// The width of one head, when all heads together are `expand` times as wide as the model.
absl::StatusOr<int64_t> HeadDim(ConfigReader& reader, std::string_view field, double fallback,
                                const Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const double expand, reader.Number(field, 1e-3, 1e3, fallback));
  const auto width = static_cast<int64_t>(static_cast<double>(config.hidden_size) * expand);
  return DivideIntoHeads(reader, width, config.num_heads);
}

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(config.num_heads, reader.Int("num_heads", 1, kMaxRwkvSize, 4));
  FERMATA_ASSIGN_OR_RETURN(config.head_k_dim, HeadDim(reader, "expand_k", 0.5, config));
  FERMATA_ASSIGN_OR_RETURN(config.head_v_dim, HeadDim(reader, "expand_v", 1.0, config));
  FERMATA_ASSIGN_OR_RETURN(config.shift_rank, reader.Int("proj_low_rank_dim", 1, kMaxRwkvSize, 32));
  FERMATA_ASSIGN_OR_RETURN(config.decay_rank, reader.Int("gate_low_rank_dim", 1, kMaxRwkvSize, 64));
  FERMATA_ASSIGN_OR_RETURN(config.gate, ReadActivation(reader, "gate_fn", "swish"));
  FERMATA_ASSIGN_OR_RETURN(const double eps, reader.Number("norm_eps", 0, 1, 1e-5));
  FERMATA_ASSIGN_OR_RETURN(const double heads_eps, reader.Number("g_norm_eps", 0, 1, eps));
  config.norm_eps = static_cast<float>(heads_eps);
  FERMATA_ASSIGN_OR_RETURN(config.norm_weights, reader.Bool("elementwise_affine", true));
  return config;
}

// The mix of a token with the one before, in shares that depend on both.
class DynamicMix {
 public:
  // For the letter "r": reads x_r and x_r_lora.
  static absl::StatusOr<DynamicMix> Read(const WeightScope& weights, const std::string& letter,
                                         const Config& config);

  // x_c [rows, hidden] for `mixed` = x + μ_x ∘ δ, in two steps, as LowRank's.
  float* AddDown(const float* mixed, LinearGroup& group) const {
    return lora_.AddDown(mixed, group);
  }
  const float* AddUp(const ShiftedRows& shifted, const float* inner, LinearGroup& group) const;

 private:
  AlignedBuffer<float> mu_;
  LowRank lora_;
};

absl::StatusOr<DynamicMix> DynamicMix::Read(const WeightScope& weights, const std::string& letter,
                                            const Config& config) {
  const std::string name = "x_" + letter;
  DynamicMix mix;
  FERMATA_ASSIGN_OR_RETURN(mix.mu_, weights.Read(name, {config.hidden_size}));
  FERMATA_ASSIGN_OR_RETURN(mix.lora_,
                           LowRank::Read(weights, name + "_lora.lora.0", name + "_lora.lora.2",
                                         {.in = config.hidden_size,
                                          .rank = config.shift_rank,
                                          .out = config.hidden_size,
                                          .activation = Activation::kTanh}));
  return mix;
}

const float* DynamicMix::AddUp(const ShiftedRows& shifted, const float* inner,
                               LinearGroup& group) const {
  return lora_.AddUp(
      inner, group,
      [&shifted, mu = mu_.span()](int64_t row, int64_t column, float* share, int64_t count) {
        const int64_t at = row * static_cast<int64_t>(mu.size()) + column;
        Add(&mu[column], share, count);
        Multiply(shifted.delta + at, share, count);
        Add(shifted.x + at, share, count);
      });
}

// W x_c.
struct DynamicLinear {
  static absl::StatusOr<DynamicLinear> Read(const WeightScope& weights, const std::string& letter,
                                            int64_t out, const Config& config) {
    DynamicLinear result;
    FERMATA_ASSIGN_OR_RETURN(result.mix, DynamicMix::Read(weights, letter, config));
    FERMATA_ASSIGN_OR_RETURN(result.linear,
                             Linear::Read(weights, letter + "_proj", out, config.hidden_size));
    return result;
  }

  DynamicMix mix;
  Linear linear;
};

class Rwkv6 : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const WeightScope& weights);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override {
    return config_.key_dim() + config_.value_dim();
  }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // What the recurrence runs on and gives, r for q.
  struct Rows : HeadRows {
    const float* w = nullptr;  // [rows, heads, head_k_dim]
    float* gate = nullptr;
  };

  absl::Status ReadTensors(const WeightScope& weights);
  // All products but the last.
  Rows Project(const ShiftedRows& shifted, Arena& arena) const;
  DecayRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  TokenShift shift_;
  AlignedBuffer<float> mu_;  // μ_x
  DynamicLinear r_, k_, v_, gate_;
  DynamicMix decay_mix_;
  LowRank decay_;
  AlignedBuffer<float> bonus_;  // [heads, head_k_dim]
  Norm norm_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv6::Create(const Config& config,
                                                     const WeightScope& weights) {
  auto mixer = std::make_unique<Rwkv6>();
  mixer->config_ = config;
  mixer->S_offset_ =
      mixer->layout_.Add("S", {config.num_heads, config.head_k_dim, config.head_v_dim});
  mixer->shift_ = TokenShift(config.hidden_size, "shift", mixer->layout_);
  FERMATA_RETURN_IF_ERROR(mixer->ReadTensors(weights));
  return mixer;
}

absl::Status Rwkv6::ReadTensors(const WeightScope& weights) {
  const Config& c = config_;
  FERMATA_ASSIGN_OR_RETURN(mu_, weights.Read("x_x", {c.hidden_size}));
  FERMATA_ASSIGN_OR_RETURN(r_, DynamicLinear::Read(weights, "r", c.key_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(k_, DynamicLinear::Read(weights, "k", c.key_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(v_, DynamicLinear::Read(weights, "v", c.value_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(gate_, DynamicLinear::Read(weights, "g", c.value_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(decay_mix_, DynamicMix::Read(weights, "w", c));
  FERMATA_ASSIGN_OR_RETURN(decay_, LowRank::Read(weights, "w_lora.lora.0", "w_lora.lora.2",
                                                 {.in = c.hidden_size,
                                                  .rank = c.decay_rank,
                                                  .out = c.key_dim(),
                                                  .activation = Activation::kTanh,
                                                  .bias = true}));
  FERMATA_ASSIGN_OR_RETURN(bonus_, weights.Read("bonus", {c.num_heads, c.head_k_dim}));
  FERMATA_ASSIGN_OR_RETURN(norm_, Norm::Read(weights, "g_norm",
                                             {.kind = NormOptions::Kind::kLayer,
                                              .dim = c.head_v_dim,
                                              .groups = c.num_heads,
                                              .eps = c.norm_eps,
                                              .weight = c.norm_weights,
                                              .bias = c.norm_weights}));
  FERMATA_ASSIGN_OR_RETURN(output_, Linear::Read(weights, "o_proj", c.hidden_size, c.value_dim()));
  return absl::OkStatus();
}

Rwkv6::Rows Rwkv6::Project(const ShiftedRows& shifted, Arena& arena) const {
  const Config& c = config_;
  const int64_t rows = shifted.rows;
  const float* mixed =
      Interpolate(shifted.x, shifted.delta, mu_.data(), rows, c.hidden_size, arena);
  const DynamicMix* const mixes[] = {&r_.mix, &k_.mix, &v_.mix, &gate_.mix, &decay_mix_};
  const float* inner[5];
  const float* x[5];
  LinearGroup group(rows, arena);
  for (int i = 0; i < 5; ++i) inner[i] = mixes[i]->AddDown(mixed, group);
  group.Run();
  for (int i = 0; i < 5; ++i) x[i] = mixes[i]->AddUp(shifted, inner[i], group);
  group.Run();

  Rows all;
  all.q = group.Add(r_.linear, x[0]);
  all.k = group.Add(k_.linear, x[1]);
  all.v = group.Add(v_.linear, x[2]);
  all.gate = group.Add(gate_.linear, x[3]);
  const float* inner_w = decay_.AddDown(x[4], group);
  group.Run();
  all.w = decay_.AddUp(inner_w, group, [](int64_t, int64_t, float* w, int64_t count) {
    Exp(w, w, count);
    Scale(-1.0f, w, count);
    Exp(w, w, count);
  });
  group.Run();
  all.o = arena.Floats(rows * c.value_dim());
  return all;
}

DecayRun Rwkv6::Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const {
  auto run = MakeRun<DecayRun>(sequence, head, config_.heads(), rows, S_offset_);
  run.decay = rows.w + (run.k - rows.k);
  run.decay_stride = run.k_stride;
  run.decay_per_channel = true;
  run.bonus = bonus_.data() + head * config_.head_k_dim;
  return run;
}

void Rwkv6::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                    float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  const ShiftedRows shifted{.x = x, .delta = shift_.Delta(sequences, x, rows, arena), .rows = rows};
  const Rows all = Project(shifted, arena);
  RunHeads(sequences,
           {.num_heads = c.num_heads, .state_floats = c.head_k_dim * c.head_v_dim, .rows = rows},
           context.form,
           [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  ParallelFor(rows, kGateWork * c.value_dim(), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * c.value_dim();
    norm_.Apply(all.o + at, end - begin, all.o + at);
    ActivateAndMultiply(c.gate, all.gate + at, all.o + at, (end - begin) * c.value_dim());
  });
  output_.Apply(all.o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv6(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Rwkv6::Create(config, options.weights);
}

}  // namespace fermata
