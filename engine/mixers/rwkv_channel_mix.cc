#include "engine/mixers/rwkv_channel_mix.h"

#include <array>
#include <optional>

#include "engine/base/aligned_buffer.h"
#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/token_shift.h"
#include "engine/mixers/rwkv_parts.h"

namespace fermata {
namespace {

// What a version of RWKV has.
struct Version {
  double hidden_ratio = 0;  // By default.
  bool receptance = false;
};

class ChannelMix : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const MixerOptions& options,
                                                       const Version& version);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }

  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override {
    Arena& arena = *context.arena;
    const Arena::Scope scope(arena);
    if (!receptance_.has_value()) {
      const auto [x_k] =
          shift_.Mix(sequences, x, rows, std::array<const float*, 1>{mu_k_.data()}, arena);
      value_.Apply(key_.Apply(x_k, rows, arena, Activated(activation_)), rows, out);
      return;
    }
    const auto [x_k, x_r] = shift_.Mix(
        sequences, x, rows, std::array<const float*, 2>{mu_k_.data(), mu_r_.data()}, arena);
    LinearGroup inputs(rows, arena);
    const float* inner = inputs.Add(key_, x_k, Activated(activation_));
    const float* receptance = inputs.Add(*receptance_, x_r, Activated(Activation::kSigmoid));
    inputs.Run();
    value_.Apply(inner, rows, out,
                 [receptance, width = value_.out_features()](int64_t row, int64_t column, float* y,
                                                             int64_t count) {
                   Multiply(receptance + row * width + column, y, count);
                 });
  }

 private:
  StateLayout layout_;
  TokenShift shift_;
  Activation activation_ = Activation::kSquaredRelu;
  AlignedBuffer<float> mu_k_, mu_r_;
  Linear key_;
  std::optional<Linear> receptance_;
  Linear value_;
};

absl::StatusOr<int64_t> IntermediateSize(ConfigReader& config, int64_t hidden, double ratio) {
  FERMATA_ASSIGN_OR_RETURN(ratio, config.Number("hidden_ratio", 1e-3, 1e3, ratio));
  const auto derived = static_cast<int64_t>(static_cast<double>(hidden) * ratio);
  return config.Int("intermediate_size", 1, kMaxRwkvSize, (derived + 31) / 32 * 32);
}

absl::StatusOr<std::unique_ptr<Mixer>> ChannelMix::Create(const MixerOptions& options,
                                                          const Version& version) {
  auto mixer = std::make_unique<ChannelMix>();
  const WeightScope& weights = options.weights;
  const int64_t hidden = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(mixer->activation_,
                           ReadActivation(*options.config, "hidden_act", "sqrelu"));
  FERMATA_ASSIGN_OR_RETURN(const int64_t inner,
                           IntermediateSize(*options.config, hidden, version.hidden_ratio));
  mixer->shift_ = TokenShift(hidden, "shift", mixer->layout_);
  FERMATA_ASSIGN_OR_RETURN(mixer->mu_k_, weights.Read("x_k", {hidden}));
  FERMATA_ASSIGN_OR_RETURN(mixer->key_, Linear::Read(weights, "key", inner, hidden));
  FERMATA_ASSIGN_OR_RETURN(mixer->value_, Linear::Read(weights, "value", hidden, inner));
  if (version.receptance) {
    FERMATA_ASSIGN_OR_RETURN(mixer->mu_r_, weights.Read("x_r", {hidden}));
    FERMATA_ASSIGN_OR_RETURN(mixer->receptance_,
                             Linear::Read(weights, "receptance", hidden, hidden));
  }
  return mixer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkvChannelMix(const MixerOptions& options) {
  return ChannelMix::Create(options, {.hidden_ratio = 3.5, .receptance = true});
}

absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv7ChannelMix(const MixerOptions& options) {
  return ChannelMix::Create(options, {.hidden_ratio = 4, .receptance = false});
}

}  // namespace fermata
