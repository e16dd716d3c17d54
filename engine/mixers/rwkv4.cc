#include "engine/mixers/rwkv4.h"

#include <algorithm>
#include <array>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/wkv.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/token_shift.h"
#include "engine/mixers/rwkv_parts.h"

namespace fermata {
namespace {

// Channels that one thread takes at a time, and what a token of one channel costs: four exponentials
// and a division.
constexpr int64_t kChannels = 64;
constexpr int64_t kChannelWork = 64;

class Rwkv4 : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t kv_equivalent_floats_per_position() const override { return 2 * dim_; }
  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // Keys, values and outputs of all rows: [rows, dim].
  struct Rows {
    const float* k = nullptr;
    const float* v = nullptr;
    float* o = nullptr;
  };

  // The channels from `channel` on, at most kChannels of them.
  WkvRun Run(const SequenceRows& sequence, int64_t channel, const Rows& rows) const;
  void Mix(std::span<const SequenceRows> sequences, int64_t rows, const Rows& all, Form form) const;

  int64_t dim_ = 0;
  StateLayout layout_;
  int64_t num_offset_ = 0;
  int64_t den_offset_ = 0;
  int64_t max_offset_ = 0;
  TokenShift shift_;
  AlignedBuffer<float> mu_r_, mu_k_, mu_v_;
  Linear r_, k_, v_;
  AlignedBuffer<float> log_decay_;
  AlignedBuffer<float> bonus_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv4::Create(const MixerOptions& options) {
  auto mixer = std::make_unique<Rwkv4>();
  const WeightScope& weights = options.weights;
  const int64_t hidden = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(const int64_t dim,
                           options.config->Int("attention_hidden_size", 1, kMaxRwkvSize, hidden));
  mixer->dim_ = dim;
  mixer->num_offset_ = mixer->layout_.Add("num", {dim});
  mixer->den_offset_ = mixer->layout_.Add("den", {dim});
  mixer->max_offset_ = mixer->layout_.Add("max", {dim});
  mixer->shift_ = TokenShift(hidden, "shift", mixer->layout_);
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_r_, weights.Read("x_r", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->r_, Linear::Read(weights, "r_proj", dim, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_k_, weights.Read("x_k", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->k_, Linear::Read(weights, "k_proj", dim, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_v_, weights.Read("x_v", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->v_, Linear::Read(weights, "v_proj", dim, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->log_decay_, weights.Read("time_decay", {dim}));
  Exp(mixer->log_decay_.data(), mixer->log_decay_.data(), dim);
  Scale(-1.0f, mixer->log_decay_.data(), dim);
  FERMATA_ASSIGN_OR_RETURN(mixer->bonus_, weights.Read("time_first", {dim}));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, Linear::Read(weights, "o_proj", hidden, dim));
  return mixer;
}

WkvRun Rwkv4::Run(const SequenceRows& sequence, int64_t channel, const Rows& rows) const {
  const int64_t first = sequence.begin * dim_ + channel;
  return {.count = sequence.count,
          .dim = std::min(kChannels, dim_ - channel),
          .k = rows.k + first,
          .k_stride = dim_,
          .v = rows.v + first,
          .v_stride = dim_,
          .o = rows.o + first,
          .o_stride = dim_,
          .log_decay = log_decay_.data() + channel,
          .bonus = bonus_.data() + channel,
          .num = sequence.state + num_offset_ + channel,
          .den = sequence.state + den_offset_ + channel,
          .max = sequence.state + max_offset_ + channel};
}

void Rwkv4::Mix(std::span<const SequenceRows> sequences, int64_t rows, const Rows& all,
                Form form) const {
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  const int64_t parts = (dim_ + kChannels - 1) / kChannels;
  ParallelFor(parts * num_sequences, kChannels * kChannelWork * rows / num_sequences,
              [&](int64_t begin, int64_t end) {
                for (int64_t pair = begin; pair < end; ++pair) {
                  const SequenceRows& sequence = sequences[pair % num_sequences];
                  const int64_t channel = pair / num_sequences * kChannels;
                  Compute(Run(sequence, channel, all), sequence.position, form);
                }
              });
}

void Rwkv4::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                    float* out, const MixerContext& context) const {
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  const auto [x_r, x_k, x_v] =
      shift_.Mix(sequences, x, rows,
                 std::array<const float*, 3>{mu_r_.data(), mu_k_.data(), mu_v_.data()}, arena);
  LinearGroup inputs(rows, arena);
  const float* r = inputs.Add(r_, x_r, Activated(Activation::kSigmoid));
  float* k = inputs.Add(k_, x_k);
  float* v = inputs.Add(v_, x_v);
  inputs.Run();
  float* o = arena.Floats(rows * dim_);
  Mix(sequences, rows, {.k = k, .v = v, .o = o}, context.form);
  Multiply(r, o, rows * dim_);
  output_.Apply(o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv4(const MixerOptions& options) {
  return Rwkv4::Create(options);
}

}  // namespace fermata
