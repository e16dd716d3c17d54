#include "engine/mixers/gated_mlp.h"

#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"
#include "engine/layers/part_clock.h"

namespace fermata {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;

class GatedMlp : public Mixer {
 public:
  GatedMlp(PackedMatrix gate, PackedMatrix up, PackedMatrix down)
      : gate_(std::move(gate)), up_(std::move(up)), down_(std::move(down)) {}

  std::span<const StateBlock> state_blocks() const override { return {}; }

  void Forward(std::span<const SequenceRows>, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override {
    const Arena::Scope scope(*context.arena);
    const int64_t size = rows * gate_.out_features();
    float* gate = context.arena->Floats(size);
    float* up = context.arena->Floats(size);
    const Product products[] = {
        {.matrix = &gate_, .x = x, .y = gate},
        {.matrix = &up_,
         .x = x,
         .y = up,
         .finish = [gate, width = gate_.out_features()](int64_t row, int64_t column, float* y,
                                                        int64_t count) {
           SiluMultiply(gate + row * width + column, y, y, count);
         }}};
    MultiplyTimed(products, rows);
    const Product down = {.matrix = &down_, .x = up, .y = out};
    MultiplyTimed({&down, 1}, rows);
  }

 private:
  PackedMatrix gate_;
  PackedMatrix up_;
  PackedMatrix down_;
};

absl::StatusOr<int64_t> IntermediateSize(ConfigReader& config, int64_t hidden) {
  FERMATA_ASSIGN_OR_RETURN(const double ratio, config.Number("hidden_ratio", 1e-3, 1e3, 4.0));
  const int64_t derived = static_cast<int64_t>(static_cast<double>(hidden) * ratio * 2 / 3);
  return config.Int("intermediate_size", 1, kMaxSize, (derived + 255) / 256 * 256);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateGatedMlp(const MixerOptions& options) {
  ConfigReader& config = *options.config;
  const WeightScope& weights = options.weights;
  const int64_t hidden = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(const std::string act, config.String("hidden_act", "swish"));
  if (act != "swish" && act != "silu") {
    return config.Error("hidden_act", "\"" + act + "\" is not known; swish and silu are");
  }
  FERMATA_ASSIGN_OR_RETURN(const int64_t inner, IntermediateSize(config, hidden));
  FERMATA_ASSIGN_OR_RETURN(PackedMatrix down,
                           ReadMatrix(weights, "down_proj.weight", hidden, inner));
  if (!weights.Has("up_proj.weight")) {
    const int64_t halves[] = {inner, inner};
    auto both = ReadMatrices(weights, "gate_proj.weight", halves, hidden);
    if (both.ok()) {
      return std::make_unique<GatedMlp>(std::move((*both)[0]), std::move((*both)[1]),
                                        std::move(down));
    }
  }
  FERMATA_ASSIGN_OR_RETURN(PackedMatrix up, ReadMatrix(weights, "up_proj.weight", inner, hidden));
  FERMATA_ASSIGN_OR_RETURN(PackedMatrix gate,
                           ReadMatrix(weights, "gate_proj.weight", inner, hidden));
  return std::make_unique<GatedMlp>(std::move(gate), std::move(up), std::move(down));
}

}  // namespace fermata
