#include "engine/mixers/rwkv7.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/layers/recurrence.h"
#include "engine/layers/token_shift.h"
#include "engine/mixers/rwkv_parts.h"

namespace fermata {
namespace {

constexpr float kDecayScale = 0.60653066f;  // e^-½: no decay is below e^-e^-½ = 0.545.

struct Config {
  int64_t hidden_size = 0;
  int64_t layer = 0;
  int64_t num_heads = 0;
  int64_t head_k_dim = 0;
  int64_t head_v_dim = 0;
  int64_t decay_rank = 0;
  int64_t rate_rank = 0;
  int64_t value_rank = 0;
  int64_t gate_rank = 0;
  bool fused_key_norm = true;
  float norm_eps = 0;
  bool norm_weights = true;

  int64_t key_dim() const { return num_heads * head_k_dim; }
  int64_t value_dim() const { return num_heads * head_v_dim; }
  HeadSizes heads() const { return {num_heads, num_heads, head_k_dim, head_v_dim}; }
};

absl::Status ReadHeads(ConfigReader& reader, Config& config) {
  const int64_t hidden = config.hidden_size;
  if (reader.IsNull("head_dim") && reader.Has("num_heads")) {
    FERMATA_ASSIGN_OR_RETURN(config.num_heads, reader.Int("num_heads", 1, kMaxRwkvSize));
    FERMATA_ASSIGN_OR_RETURN(config.head_k_dim, DivideIntoHeads(reader, hidden, config.num_heads));
    return absl::OkStatus();
  }
  reader.Ignore({"num_heads"});  // What head_dim says.
  FERMATA_ASSIGN_OR_RETURN(config.head_k_dim, reader.Int("head_dim", 1, kMaxRwkvSize, 64));
  if (hidden % config.head_k_dim != 0) {
    return reader.Error("head_dim", absl::StrCat(config.head_k_dim, " does not divide ", hidden));
  }
  config.num_heads = hidden / config.head_k_dim;
  return absl::OkStatus();
}

absl::Status ReadValueDim(ConfigReader& reader, Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                           reader.Ints("value_dim", 1, kMaxRwkvSize));
  if (dims.size() > 1 && static_cast<int64_t>(dims.size()) <= config.layer) {
    return reader.Error("value_dim", absl::StrCat("has no number for layer ", config.layer));
  }
  // Later layers mix their values with those of the first.
  if (std::ranges::any_of(dims, [&](int64_t dim) { return dim != dims.front(); })) {
    return reader.Error("value_dim", "layers with values of different widths are not known");
  }
  const int64_t dim = dims.empty() ? config.hidden_size : dims.front();
  if (dim % config.num_heads != 0) {
    return reader.Error("value_dim", absl::StrCat(config.num_heads, " heads do not divide ", dim));
  }
  config.head_v_dim = dim / config.num_heads;
  return absl::OkStatus();
}

absl::Status ReadRanks(ConfigReader& reader, Config& config) {
  const auto rank = [&](std::string_view field, double factor) {
    const double size = factor * std::sqrt(static_cast<double>(config.hidden_size));
    const auto steps = static_cast<int64_t>(std::nearbyint(size / 32));
    return reader.Int(field, 1, kMaxRwkvSize, std::max<int64_t>(steps, 1) * 32);
  };
  const double heads = static_cast<double>(config.head_k_dim) / 64;
  FERMATA_ASSIGN_OR_RETURN(config.decay_rank, rank("decay_low_rank_dim", 2.5 * heads));
  FERMATA_ASSIGN_OR_RETURN(config.rate_rank, rank("a_low_rank_dim", 2.5 * heads));
  FERMATA_ASSIGN_OR_RETURN(config.value_rank, rank("v_low_rank_dim", 1.7 * heads));
  FERMATA_ASSIGN_OR_RETURN(config.gate_rank, rank("gate_low_rank_dim", 5));
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  config.layer = options.layer;
  FERMATA_RETURN_IF_ERROR(ReadHeads(reader, config));
  FERMATA_RETURN_IF_ERROR(ReadValueDim(reader, config));
  FERMATA_RETURN_IF_ERROR(ReadRanks(reader, config));
  FERMATA_ASSIGN_OR_RETURN(config.fused_key_norm, reader.Bool("fuse_norm", true));
  FERMATA_ASSIGN_OR_RETURN(const double eps, reader.Number("norm_eps", 0, 1, 1e-5));
  FERMATA_ASSIGN_OR_RETURN(
      const double heads_eps,
      reader.Number("g_norm_eps", 0, 1, eps * static_cast<double>(config.head_k_dim)));
  config.norm_eps = static_cast<float>(heads_eps);
  FERMATA_ASSIGN_OR_RETURN(config.norm_weights, reader.Bool("elementwise_affine", true));
  return config;
}

class Rwkv7 : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const WeightScope& weights);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override {
    return config_.key_dim() + config_.value_dim();
  }
  int64_t value_residual_floats() const override { return config_.value_dim(); }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // What the recurrence runs on and gives, of all rows: [rows, heads, head dim].
  struct Rows {
    float* r = nullptr;
    float* k = nullptr;
    float* v = nullptr;
    float* w = nullptr;
    float* a = nullptr;
    float* b = nullptr;
    float* o = nullptr;
  };

  absl::Status ReadTensors(const WeightScope& weights);
  float* Decay(const float* x_w, int64_t rows, Arena& arena) const;
  // v, mixed with that of the first layer.
  float* Values(const float* x_v, int64_t rows, float* value_residual, Arena& arena) const;
  // Makes all.a and all.b, and turns all.k into that of the recurrence, for the learning rates in
  // all.b.
  void SetKeys(int64_t rows, const Rows& all) const;
  DeltaRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;
  // o += (Σ r ∘ k ∘ r_k) v in each head.
  void AddOwnPair(int64_t rows, const Rows& all, Arena& arena) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  TokenShift shift_;
  MixedLinear r_, k_;
  AlignedBuffer<float> mu_w_, mu_v_, mu_a_, mu_g_;
  Linear v_;
  LowRank decay_, rate_, gate_;
  std::optional<LowRank> value_mix_;
  AlignedBuffer<float> k_k_, k_a_, r_k_;  // [key_dim]
  Norm norm_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv7::Create(const Config& config,
                                                     const WeightScope& weights) {
  auto mixer = std::make_unique<Rwkv7>();
  mixer->config_ = config;
  mixer->S_offset_ =
      mixer->layout_.Add("S", {config.num_heads, config.head_k_dim, config.head_v_dim});
  mixer->shift_ = TokenShift(config.hidden_size, "shift", mixer->layout_);
  FERMATA_RETURN_IF_ERROR(mixer->ReadTensors(weights));
  return mixer;
}

absl::Status Rwkv7::ReadTensors(const WeightScope& weights) {
  const Config& c = config_;
  const int64_t hidden = c.hidden_size;
  const auto low_rank = [&](const std::string& letter, const LowRankOptions& options) {
    return LowRank::Read(weights, letter + "_lora.lora.0", letter + "_lora.lora.2", options);
  };
  FERMATA_ASSIGN_OR_RETURN(r_, MixedLinear::Read(weights, "x_r", "r_proj", c.key_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(k_, MixedLinear::Read(weights, "x_k", "k_proj", c.key_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(v_, Linear::Read(weights, "v_proj", c.value_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(mu_w_, weights.Read("x_w", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mu_v_, weights.Read("x_v", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mu_a_, weights.Read("x_a", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mu_g_, weights.Read("x_g", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(decay_, low_rank("w", {.in = hidden,
                                                  .rank = c.decay_rank,
                                                  .out = c.key_dim(),
                                                  .activation = Activation::kTanh,
                                                  .bias = true}));
  FERMATA_ASSIGN_OR_RETURN(
      rate_, low_rank("a", {.in = hidden, .rank = c.rate_rank, .out = c.key_dim(), .bias = true}));
  FERMATA_ASSIGN_OR_RETURN(gate_, low_rank("g", {.in = hidden,
                                                 .rank = c.gate_rank,
                                                 .out = c.value_dim(),
                                                 .activation = Activation::kSigmoid}));
  if (c.layer > 0) {
    FERMATA_ASSIGN_OR_RETURN(
        value_mix_,
        low_rank("v", {.in = hidden, .rank = c.value_rank, .out = c.value_dim(), .bias = true}));
  }
  FERMATA_ASSIGN_OR_RETURN(k_k_, weights.Read("k_k", {c.key_dim()}));
  FERMATA_ASSIGN_OR_RETURN(k_a_, weights.Read("k_a", {c.key_dim()}));
  FERMATA_ASSIGN_OR_RETURN(r_k_, weights.Read("r_k", {c.num_heads, c.head_k_dim}));
  FERMATA_ASSIGN_OR_RETURN(norm_, Norm::Read(weights, "g_norm",
                                             {.kind = NormOptions::Kind::kLayer,
                                              .dim = c.head_v_dim,
                                              .groups = c.num_heads,
                                              .eps = c.norm_eps,
                                              .weight = c.norm_weights,
                                              .bias = c.norm_weights}));
  FERMATA_ASSIGN_OR_RETURN(output_, Linear::Read(weights, "o_proj", hidden, c.value_dim()));
  return absl::OkStatus();
}

float* Rwkv7::Decay(const float* x_w, int64_t rows, Arena& arena) const {
  const int64_t size = rows * config_.key_dim();
  float* w = decay_.Apply(x_w, rows, arena);
  Sigmoid(w, w, size);
  Scale(-kDecayScale, w, size);
  Exp(w, w, size);
  return w;
}

float* Rwkv7::Values(const float* x_v, int64_t rows, float* value_residual, Arena& arena) const {
  const int64_t size = rows * config_.value_dim();
  float* v = v_.Apply(x_v, rows, arena);
  if (!value_mix_.has_value()) {
    if (value_residual != nullptr) std::copy_n(v, size, value_residual);
    return v;
  }
  const Arena::Scope scope(arena);
  float* share = value_mix_->Apply(x_v, rows, arena);
  Sigmoid(share, share, size);
  float* difference = arena.Floats(size);
  std::copy_n(value_residual, size, difference);
  MultiplyAdd(-1.0f, v, difference, size);
  Multiply(share, difference, size);
  Add(difference, v, size);
  return v;
}

void Rwkv7::SetKeys(int64_t rows, const Rows& all) const {
  const Config& c = config_;
  const int64_t size = rows * c.key_dim();
  std::copy_n(all.k, size, all.a);
  MultiplyRows(k_k_.span(), all.a, rows);
  if (c.fused_key_norm) {
    L2Norm(all.a, rows * c.num_heads, c.head_k_dim, 1e-6f, all.a);
  } else {
    UnitNorm(all.a, rows * c.num_heads, c.head_k_dim, 1e-12f, all.a);
  }
  for (int64_t row = 0; row < rows; ++row) {
    float* k = all.k + row * c.key_dim();
    float* kappa = all.a + row * c.key_dim();
    float* rate = all.b + row * c.key_dim();
    for (int64_t i = 0; i < c.key_dim(); ++i) {
      k[i] *= 1 + (rate[i] - 1) * k_a_[i];
      rate[i] *= kappa[i];
      kappa[i] = -kappa[i];
    }
  }
}

DeltaRun Rwkv7::Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const {
  auto run = MakeRun<DeltaRun>(sequence, head, config_.heads(),
                               {.q = rows.r, .k = rows.k, .v = rows.v, .o = rows.o}, S_offset_);
  const int64_t at = run.k - rows.k;
  run.a = rows.a + at;
  run.b = rows.b + at;
  run.decay = rows.w + at;
  run.a_stride = run.b_stride = run.decay_stride = run.k_stride;
  run.decay_per_channel = true;
  return run;
}

void Rwkv7::AddOwnPair(int64_t rows, const Rows& all, Arena& arena) const {
  const Config& c = config_;
  const Arena::Scope scope(arena);
  float* product = arena.Floats(rows * c.key_dim());
  std::copy_n(all.r, rows * c.key_dim(), product);
  Multiply(all.k, product, rows * c.key_dim());
  MultiplyRows(r_k_.span(), product, rows);
  for (int64_t i = 0; i < rows * c.num_heads; ++i) {
    MultiplyAdd(Sum(product + i * c.head_k_dim, c.head_k_dim), all.v + i * c.head_v_dim,
                all.o + i * c.head_v_dim, c.head_v_dim);
  }
}

void Rwkv7::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                    float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  const ShiftedRows shifted{.x = x, .delta = shift_.Delta(sequences, x, rows, arena), .rows = rows};
  const auto mixed = [&](const AlignedBuffer<float>& mu) {
    return Interpolate(x, shifted.delta, mu.data(), rows, c.hidden_size, arena);
  };
  const Rows all{.r = r_.Apply(shifted, arena),
                 .k = k_.Apply(shifted, arena),
                 .v = Values(mixed(mu_v_), rows, context.value_residual, arena),
                 .w = Decay(mixed(mu_w_), rows, arena),
                 .a = arena.Floats(rows * c.key_dim()),
                 .b = rate_.Apply(mixed(mu_a_), rows, arena),
                 .o = arena.Floats(rows * c.value_dim())};
  Sigmoid(all.b, all.b, rows * c.key_dim());
  SetKeys(rows, all);
  RunHeads(sequences,
           {.num_heads = c.num_heads, .state_floats = c.head_k_dim * c.head_v_dim, .rows = rows},
           context.form,
           [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  norm_.Apply(all.o, rows, all.o);
  AddOwnPair(rows, all, arena);
  Multiply(gate_.Apply(mixed(mu_g_), rows, arena), all.o, rows * c.value_dim());
  output_.Apply(all.o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv7(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Rwkv7::Create(config, options.weights);
}

}  // namespace fermata
