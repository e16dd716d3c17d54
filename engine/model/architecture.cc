#include "engine/model/architecture.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

constexpr int64_t kMaxHiddenSize = int64_t{1} << 20;
constexpr int64_t kMaxVocabSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;

// The skeleton that flash-linear-attention's models share with most transformers: `attn`, then
// `mlp`, each behind an RMSNorm and on top of the residual stream.
absl::StatusOr<ModelPlan> PlanFla(ConfigReader& config, const std::string& mixer) {
  ModelPlan plan;
  FERMATA_ASSIGN_OR_RETURN(plan.hidden_size, config.Int("hidden_size", 1, kMaxHiddenSize));
  FERMATA_ASSIGN_OR_RETURN(plan.vocab_size, config.Int("vocab_size", 1, kMaxVocabSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t layers, config.Int("num_hidden_layers", 1, kMaxLayers));
  FERMATA_ASSIGN_OR_RETURN(const double eps, config.Number("norm_eps", 0, 1, 1e-6));
  plan.norm_eps = static_cast<float>(eps);
  plan.embeddings = "model.embeddings.weight";
  plan.layers = "model.layers.";
  plan.norm = "model.norm.weight";
  plan.head = "lm_head.weight";
  const BlockPlan block = {
      {{"attn_norm", mixer, "attn", &config}, {"mlp_norm", "gated_mlp", "mlp", &config}}};
  plan.blocks.assign(layers, block);
  // How the published code trains, stores and schedules; nothing of it changes a forward pass.
  config.Ignore({"_name_or_path", "architectures", "attn_mode", "auto_map", "dtype",
                 "fuse_cross_entropy", "fuse_linear_cross_entropy", "fuse_norm", "fuse_swiglu",
                 "initializer_range", "max_position_embeddings", "pad_token_id", "torch_dtype",
                 "transformers_version", "use_cache", "use_l2warp"});
  return plan;
}

// Linear attention, with softmax attention in the layers that the field `attn` lists, if any.
absl::StatusOr<ModelPlan> PlanLinearAttention(ConfigReader& config) {
  FERMATA_ASSIGN_OR_RETURN(ModelPlan plan, PlanFla(config, "linear_attn"));
  FERMATA_ASSIGN_OR_RETURN(std::optional<ConfigReader> attn, config.Object("attn"));
  if (!attn.has_value()) return plan;
  const auto last = static_cast<int64_t>(plan.blocks.size()) - 1;
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, attn->Ints("layers", 0, last));
  if (layers.empty()) return attn->Error("layers", "missing or empty");
  auto& nested = plan.nested.emplace_back(std::make_unique<ConfigReader>(*std::move(attn)));
  for (const int64_t layer : layers) {
    SublayerPlan& sublayer = plan.blocks[layer].sublayers.front();
    sublayer.mixer = "softmax_attn";
    sublayer.config = nested.get();
  }
  return plan;
}

// Softmax attention throughout: the baseline. The published config speaks of elementwise_affine,
// but every norm of the published layers has weights.
absl::StatusOr<ModelPlan> PlanTransformer(ConfigReader& config) {
  config.Ignore({"elementwise_affine"});
  return PlanFla(config, "softmax_attn");
}

constexpr Architecture kArchitectures[] = {
    {"linear_attn", PlanLinearAttention},
    {"transformer", PlanTransformer},
};

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

absl::StatusOr<ModelPlan> PlanModel(ConfigReader& config) {
  FERMATA_ASSIGN_OR_RETURN(const std::string model_type, config.String("model_type"));
  std::string known;
  for (const Architecture& architecture : Architectures()) {
    if (architecture.model_type == model_type) return architecture.plan(config);
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(architecture.model_type));
  }
  return config.Error("model_type", Quoted(model_type) + " is not known; known are " + known);
}

}  // namespace fermata
