#include "engine/mixers/rwkv5.h"

#include <algorithm>
#include <array>
#include <optional>

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
  int64_t head_dim = 0;
  bool decay_per_channel = true;
  bool gate = true;
  float norm_eps = 0;

  int64_t dim() const { return num_heads * head_dim; }
  HeadSizes heads() const { return {num_heads, num_heads, head_dim, head_dim}; }
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(config.num_heads, reader.Int("num_heads", 1, kMaxRwkvSize));
  FERMATA_ASSIGN_OR_RETURN(
      const int64_t dim, reader.Int("attention_hidden_size", 1, kMaxRwkvSize, options.hidden_size));
  FERMATA_ASSIGN_OR_RETURN(config.head_dim, DivideIntoHeads(reader, dim, config.num_heads));
  FERMATA_ASSIGN_OR_RETURN(config.decay_per_channel, reader.Bool("decay_per_channel", true));
  FERMATA_ASSIGN_OR_RETURN(config.gate, reader.Bool("use_gate", true));
  FERMATA_ASSIGN_OR_RETURN(const double eps, reader.Number("g_norm_eps", 0, 1, 64e-5));
  config.norm_eps = static_cast<float>(eps);
  return config;
}

class Rwkv5 : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const WeightScope& weights);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override { return 2 * config_.dim(); }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // Reads time_decay and bonus.
  absl::Status ReadDecay(const WeightScope& weights);
  DecayRun Run(const SequenceRows& sequence, int64_t head, const HeadRows& rows) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  TokenShift shift_;
  AlignedBuffer<float> mu_r_, mu_k_, mu_v_, mu_g_;
  Linear r_, k_, v_;
  std::optional<Linear> gate_;
  AlignedBuffer<float> decay_;  // [heads] or [heads, head_dim]
  AlignedBuffer<float> bonus_;  // [heads, head_dim]
  Norm norm_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv5::Create(const Config& config,
                                                     const WeightScope& weights) {
  auto mixer = std::make_unique<Rwkv5>();
  mixer->config_ = config;
  const int64_t hidden = config.hidden_size;
  const int64_t dim = config.dim();
  mixer->S_offset_ = mixer->layout_.Add("S", {config.num_heads, config.head_dim, config.head_dim});
  mixer->shift_ = TokenShift(hidden, "shift", mixer->layout_);
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_r_, weights.Read("x_r", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->r_, Linear::Read(weights, "r_proj", dim, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_k_, weights.Read("x_k", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->k_, Linear::Read(weights, "k_proj", dim, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_v_, weights.Read("x_v", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->v_, Linear::Read(weights, "v_proj", dim, hidden));
  if (config.gate) {
    FERMATA_ASSIGN_OR_RETURN(mixer->mu_g_, weights.Read("x_g", {hidden}));
    FERMATA_ASSIGN_OR_RETURN(mixer->gate_, Linear::Read(weights, "g_proj", dim, hidden));
  }
  FERMATA_RETURN_IF_ERROR(mixer->ReadDecay(weights));
  FERMATA_ASSIGN_OR_RETURN(mixer->norm_, Norm::Read(weights, "g_norm",
                                                    {.kind = NormOptions::Kind::kLayer,
                                                     .dim = config.head_dim,
                                                     .groups = config.num_heads,
                                                     .eps = config.norm_eps,
                                                     .bias = true}));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, Linear::Read(weights, "o_proj", hidden, dim));
  return mixer;
}

absl::Status Rwkv5::ReadDecay(const WeightScope& weights) {
  const int64_t count = config_.decay_per_channel ? config_.dim() : config_.num_heads;
  FERMATA_ASSIGN_OR_RETURN(decay_, weights.Read("time_decay", {count}));
  Exp(decay_.data(), decay_.data(), count);
  Scale(-1.0f, decay_.data(), count);
  Exp(decay_.data(), decay_.data(), count);
  FERMATA_ASSIGN_OR_RETURN(const AlignedBuffer<float> bonus, weights.Read("bonus", {count}));
  bonus_ = AlignedBuffer<float>(config_.dim());
  const int64_t repeats = config_.dim() / count;
  for (int64_t i = 0; i < count; ++i) std::fill_n(bonus_.data() + i * repeats, repeats, bonus[i]);
  return absl::OkStatus();
}

DecayRun Rwkv5::Run(const SequenceRows& sequence, int64_t head, const HeadRows& rows) const {
  auto run = MakeRun<DecayRun>(sequence, head, config_.heads(), rows, S_offset_);
  run.decay = decay_.data() + head * (config_.decay_per_channel ? config_.head_dim : 1);
  run.decay_per_channel = config_.decay_per_channel;
  run.bonus = bonus_.data() + head * config_.head_dim;
  return run;
}

void Rwkv5::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                    float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  // Without a gate the last is for nobody.
  const auto [x_r, x_k, x_v, x_g] =
      shift_.Mix(sequences, x, rows,
                 std::array<const float*, 4>{mu_r_.data(), mu_k_.data(), mu_v_.data(),
                                             gate_.has_value() ? mu_g_.data() : mu_r_.data()},
                 arena);
  LinearGroup inputs(rows, arena);
  float* o = arena.Floats(rows * c.dim());
  const HeadRows all{
      .q = inputs.Add(r_, x_r), .k = inputs.Add(k_, x_k), .v = inputs.Add(v_, x_v), .o = o};
  float* gate = gate_.has_value() ? inputs.Add(*gate_, x_g) : nullptr;
  inputs.Run();
  RunHeads(sequences,
           {.num_heads = c.num_heads, .state_floats = c.head_dim * c.head_dim, .rows = rows},
           context.form,
           [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  ParallelFor(rows, kGateWork * c.dim(), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * c.dim();
    norm_.Apply(o + at, end - begin, o + at);
    if (gate == nullptr) return;
    ActivateAndMultiply(Activation::kSilu, gate + at, o + at, (end - begin) * c.dim());
  });
  output_.Apply(o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv5(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Rwkv5::Create(config, options.weights);
}

}  // namespace fermata
