#include <string>

#include "engine/base/status.h"
#include "engine/model/architectures/plans.h"

namespace fermata {

// One norm and one mixer a block, as transformers and flash-linear-attention have it.
absl::StatusOr<ModelPlan> PlanMamba2(ConfigReader& config) {
  ModelPlan plan;
  FERMATA_ASSIGN_OR_RETURN(plan.hidden_size, config.Int("hidden_size", 1, kMaxHiddenSize));
  FERMATA_ASSIGN_OR_RETURN(plan.vocab_size, config.Int("vocab_size", 1, kMaxVocabSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t layers, config.Int("num_hidden_layers", 1, kMaxLayers));
  const char* eps_field = config.Has("norm_eps") ? "norm_eps" : "layer_norm_epsilon";
  FERMATA_ASSIGN_OR_RETURN(const double eps, config.Number(eps_field, 0, 1, 1e-5));
  const NormOptions norm = {.dim = plan.hidden_size, .eps = static_cast<float>(eps)};
  plan.embeddings = "backbone.embeddings.weight";
  plan.layers = "backbone.layers.";
  plan.norm = {"backbone.norm_f", norm};
  plan.head = "lm_head.weight";
  plan.blocks.assign(layers, {{{{"norm", norm}, "mamba2", "mixer", &config}}});
  IgnoreBookkeeping(config);
  return plan;
}

}  // namespace fermata
