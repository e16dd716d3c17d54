#include "engine/mixers/rwkv7.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/parallel.h"
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
// What SetKeys and SetOutput do with a number is worth in multiply-adds (base/parallel.h).
constexpr int64_t kRowWork = 16;

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
    float* gate = nullptr;
  };

  absl::Status ReadTensors(const WeightScope& weights);
  // All products but the last: the rows, with k, a and b as SetKeys expects them, and the gate.
  Rows Project(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
               const MixerContext& context) const;
  // Of rows [begin, end): makes a and b, and turns k into that of the recurrence, for the learning
  // rates in b.
  void SetKeys(int64_t begin, int64_t end, const Rows& all) const;
  DeltaRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;
  // Of rows [begin, end): turns o into (LayerNorm(o) + (Σ r ∘ k ∘ r_k) v) ∘ g. Spoils w.
  void SetOutput(int64_t begin, int64_t end, const Rows& all) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  TokenShift shift_;
  AlignedBuffer<float> mu_r_, mu_w_, mu_k_, mu_v_, mu_a_, mu_g_;
  Linear r_, k_, v_;
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
  FERMATA_ASSIGN_OR_RETURN(r_, Linear::Read(weights, "r_proj", c.key_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(k_, Linear::Read(weights, "k_proj", c.key_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(v_, Linear::Read(weights, "v_proj", c.value_dim(), hidden));
  FERMATA_ASSIGN_OR_RETURN(mu_r_, weights.Read("x_r", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mu_w_, weights.Read("x_w", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mu_k_, weights.Read("x_k", {hidden}));
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

Rwkv7::Rows Rwkv7::Project(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                           const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const auto [x_r, x_w, x_k, x_v, x_a, x_g] =
      shift_.Mix(sequences, x, rows,
                 std::array<const float*, 6>{mu_r_.data(), mu_w_.data(), mu_k_.data(), mu_v_.data(),
                                             mu_a_.data(), mu_g_.data()},
                 arena);
  Rows all;
  LinearGroup first(rows, arena);
  // Held wide, these are the longest: threads take them first.
  const float* inner_w = decay_.AddDown(x_w, first);
  const float* inner_a = rate_.AddDown(x_a, first);
  const float* inner_g = gate_.AddDown(x_g, first);
  const float* inner_v = value_mix_.has_value() ? value_mix_->AddDown(x_v, first) : nullptr;
  all.r = first.Add(r_, x_r);
  all.k = first.Add(k_, x_k);
  all.v = first.Add(v_, x_v);
  first.Run();

  LinearGroup second(rows, arena);
  all.w = decay_.AddUp(inner_w, second, [](int64_t, int64_t, float* w, int64_t count) {
    Sigmoid(w, w, count);
    Scale(-kDecayScale, w, count);
    Exp(w, w, count);
  });
  all.b = rate_.AddUp(inner_a, second, Activated(Activation::kSigmoid));
  all.gate = gate_.AddUp(inner_g, second);
  if (inner_v != nullptr) {
    value_mix_->AddUp(inner_v, second,
                      [width = c.value_dim(), v = all.v, first_v = context.value_residual](
                          int64_t row, int64_t column, float* share, int64_t count) {
                        const int64_t at = row * width + column;
                        Sigmoid(share, share, count);
                        Blend(share, v + at, first_v + at, v + at, count);
                      });
  } else if (context.value_residual != nullptr) {
    std::copy_n(all.v, rows * c.value_dim(), context.value_residual);
  }
  second.Run();
  all.a = arena.Floats(rows * c.key_dim());
  all.o = arena.Floats(rows * c.value_dim());
  return all;
}

void Rwkv7::SetKeys(int64_t begin, int64_t end, const Rows& all) const {
  const Config& c = config_;
  const int64_t dim = c.key_dim();
  for (int64_t row = begin; row < end; ++row) {
    float* k = all.k + row * dim;
    float* kappa = all.a + row * dim;
    float* rate = all.b + row * dim;
    // k (1 + (rate - 1) k_a) is k with the share k_a of rate · k.
    std::copy_n(k, dim, kappa);
    Multiply(rate, k, dim);
    Blend(k_a_.data(), kappa, k, k, dim);
    Multiply(k_k_.data(), kappa, dim);
    if (c.fused_key_norm) {
      L2Norm(kappa, c.num_heads, c.head_k_dim, 1e-6f, kappa);
    } else {
      UnitNorm(kappa, c.num_heads, c.head_k_dim, 1e-12f, kappa);
    }
    Multiply(kappa, rate, dim);
    Scale(-1, kappa, dim);
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

void Rwkv7::SetOutput(int64_t begin, int64_t end, const Rows& all) const {
  const Config& c = config_;
  norm_.Apply(all.o + begin * c.value_dim(), end - begin, all.o + begin * c.value_dim());
  for (int64_t row = begin; row < end; ++row) {
    float* r = all.w + row * c.key_dim();
    std::copy_n(all.r + row * c.key_dim(), c.key_dim(), r);
    Multiply(r_k_.data(), r, c.key_dim());
    for (int64_t head = 0; head < c.num_heads; ++head) {
      const float* k = all.k + row * c.key_dim() + head * c.head_k_dim;
      const int64_t at = row * c.value_dim() + head * c.head_v_dim;
      MultiplyAdd(Dot(r + head * c.head_k_dim, k, c.head_k_dim), all.v + at, all.o + at,
                  c.head_v_dim);
    }
    Multiply(all.gate + row * c.value_dim(), all.o + row * c.value_dim(), c.value_dim());
  }
}

void Rwkv7::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                    float* out, const MixerContext& context) const {
  const Config& c = config_;
  const Arena::Scope scope(*context.arena);
  const Rows all = Project(sequences, x, rows, context);
  const int64_t row_work = kRowWork * (c.key_dim() + c.value_dim());
  ParallelFor(rows, row_work, [&](int64_t begin, int64_t end) { SetKeys(begin, end, all); });
  RunHeads(sequences,
           {.num_heads = c.num_heads, .state_floats = c.head_k_dim * c.head_v_dim, .rows = rows},
           context.form,
           [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  ParallelFor(rows, row_work, [&](int64_t begin, int64_t end) { SetOutput(begin, end, all); });
  output_.Apply(all.o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv7(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return Rwkv7::Create(config, options.weights);
}

}  // namespace fermata
