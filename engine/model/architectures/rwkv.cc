#include <string>

#include "engine/base/status.h"
#include "engine/model/architectures/plans.h"

namespace fermata {
namespace {

// Transformers halves the residual stream after every `rescale_every` blocks, for the sake of
// float16, and with it the weights that write into the stream. A norm does not see the halves but
// for its epsilon, which weighs four times as much after each: x/2 normalised with ε is x normalised
// with 4ε.
class NormScale {
 public:
  static absl::StatusOr<NormScale> Read(ConfigReader& config) {
    NormScale scale;
    FERMATA_ASSIGN_OR_RETURN(scale.rescale_every_, config.Int("rescale_every", -1, kMaxLayers, 0));
    return scale;
  }

  // `options` as seen after `blocks` blocks.
  NormOptions After(int64_t blocks, NormOptions options) const {
    if (rescale_every_ <= 0) return options;
    for (int64_t i = 0; i < blocks / rescale_every_; ++i) options.eps *= 4;
    return options;
  }

 private:
  int64_t rescale_every_ = 0;
};

struct Mixers {
  std::string time;
  std::string channels;
};

// What all versions share: `attn`, then `ffn`, each behind a LayerNorm, and another LayerNorm of the
// embeddings. The fields are flash-linear-attention's, and beside them
//
// | config         | default  | meaning                                                   |
// | -------------- | -------- | --------------------------------------------------------- |
// | rescale_every  | 0        | see NormScale; 0 or less: never                           |
// | halve_every    | 0        | after how many blocks the stream is halved; for weights   |
// |                |          | that were divided when they were stored                   |
// | final_norm_eps | norm_eps | epsilon of the last norm, where it is not that of others  |
absl::StatusOr<ModelPlan> PlanRwkv(ConfigReader& config, const Mixers& mixers) {
  ModelPlan plan;
  FERMATA_ASSIGN_OR_RETURN(plan.hidden_size, config.Int("hidden_size", 1, kMaxHiddenSize));
  FERMATA_ASSIGN_OR_RETURN(plan.vocab_size, config.Int("vocab_size", 1, kMaxVocabSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t layers, config.Int("num_hidden_layers", 1, kMaxLayers));
  FERMATA_ASSIGN_OR_RETURN(const double eps, config.Number("norm_eps", 0, 1, 1e-5));
  FERMATA_ASSIGN_OR_RETURN(const double final_eps, config.Number("final_norm_eps", 0, 1, eps));
  FERMATA_ASSIGN_OR_RETURN(const bool bias, config.Bool("norm_bias", true));
  FERMATA_ASSIGN_OR_RETURN(const bool norm_first, config.Bool("norm_first", true));
  FERMATA_ASSIGN_OR_RETURN(const NormScale scale, NormScale::Read(config));
  FERMATA_ASSIGN_OR_RETURN(const int64_t halve_every, config.Int("halve_every", 0, kMaxLayers, 0));
  const NormOptions norm = {.kind = NormOptions::Kind::kLayer,
                            .dim = plan.hidden_size,
                            .eps = static_cast<float>(eps),
                            .bias = bias};
  NormOptions final_norm = norm;
  final_norm.eps = static_cast<float>(final_eps);
  plan.embeddings = "model.embeddings.weight";
  plan.layers = "model.layers.";
  if (norm_first) plan.embedding_norm = {"model.layers.0.pre_norm", norm};
  plan.norm = {"model.norm", scale.After(layers, final_norm)};
  plan.head = "lm_head.weight";
  for (int64_t layer = 0; layer < layers; ++layer) {
    const NormOptions block_norm = scale.After(layer, norm);
    plan.blocks.push_back({{{{"attn_norm", block_norm}, mixers.time, "attn", &config},
                            {{"ffn_norm", block_norm}, mixers.channels, "ffn", &config}}});
    if (halve_every > 0 && (layer + 1) % halve_every == 0) plan.blocks.back().scale = 0.5f;
  }
  FERMATA_RETURN_IF_ERROR(PlanHybridLayers(config, plan));
  IgnoreBookkeeping(config);
  return plan;
}

}  // namespace

absl::StatusOr<ModelPlan> PlanRwkv4(ConfigReader& config) {
  return PlanRwkv(config, {"rwkv4", "rwkv_channel_mix"});
}

absl::StatusOr<ModelPlan> PlanRwkv5(ConfigReader& config) {
  return PlanRwkv(config, {"rwkv5", "rwkv_channel_mix"});
}

absl::StatusOr<ModelPlan> PlanRwkv6(ConfigReader& config) {
  return PlanRwkv(config, {"rwkv6", "rwkv_channel_mix"});
}

absl::StatusOr<ModelPlan> PlanRwkv7(ConfigReader& config) {
  FERMATA_ASSIGN_OR_RETURN(ModelPlan plan, PlanRwkv(config, {"rwkv7", "rwkv7_channel_mix"}));
  if (plan.blocks.front().sublayers.front().mixer != "rwkv7") {
    return config.Error("attn", "layers: the first layer's values are what later ones mix with");
  }
  return plan;
}

}  // namespace fermata
