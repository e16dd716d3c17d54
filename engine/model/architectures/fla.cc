#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/architectures/plans.h"

namespace fermata {
namespace {

// What the library has had and Fermata has not.
absl::Status RefuseOthers(ConfigReader& config) {
  if (config.Has("attnres_block_size")) {
    return config.Error("attnres_block_size", "attention over residuals is not known");
  }
  for (const char* field : {"norm_first", "share_conv_kernel"}) {
    FERMATA_ASSIGN_OR_RETURN(const bool value, config.Bool(field, false));
    if (value) return config.Error(field, "true is not known; false is");
  }
  return absl::OkStatus();
}

// The skeleton that flash-linear-attention's models share with most transformers: `attn`, then
// `mlp`, each behind an RMSNorm and on top of the residual stream.
absl::StatusOr<ModelPlan> PlanFla(ConfigReader& config, const std::string& mixer) {
  ModelPlan plan;
  FERMATA_RETURN_IF_ERROR(RefuseOthers(config));
  FERMATA_ASSIGN_OR_RETURN(plan.hidden_size, config.Int("hidden_size", 1, kMaxHiddenSize));
  FERMATA_ASSIGN_OR_RETURN(plan.vocab_size, config.Int("vocab_size", 1, kMaxVocabSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t layers, config.Int("num_hidden_layers", 1, kMaxLayers));
  FERMATA_ASSIGN_OR_RETURN(const double eps, config.Number("norm_eps", 0, 1, 1e-6));
  const NormOptions norm = {
      .kind = NormOptions::Kind::kRms, .dim = plan.hidden_size, .eps = static_cast<float>(eps)};
  plan.embeddings = "model.embeddings.weight";
  plan.layers = "model.layers.";
  plan.norm = {"model.norm", norm};
  plan.head = "lm_head.weight";
  const BlockPlan block = {{{{"attn_norm", norm}, mixer, "attn", &config},
                            {{"mlp_norm", norm}, "gated_mlp", "mlp", &config}}};
  plan.blocks.assign(layers, block);
  FERMATA_RETURN_IF_ERROR(PlanHybridLayers(config, plan));
  IgnoreBookkeeping(config);
  return plan;
}

}  // namespace

void IgnoreBookkeeping(ConfigReader& config) {
  config.Ignore({"_name_or_path", "architectures", "attn_mode", "auto_map", "dtype",
                 "fuse_cross_entropy", "fuse_linear_cross_entropy", "fuse_norm", "fuse_swiglu",
                 "initializer_range", "max_position_embeddings", "pad_token_id", "torch_dtype",
                 "transformers_version", "use_cache", "use_l2warp"});
}

absl::Status PlanHybridLayers(ConfigReader& config, ModelPlan& plan) {
  FERMATA_ASSIGN_OR_RETURN(std::optional<ConfigReader> attn, config.Object("attn"));
  if (!attn.has_value()) return absl::OkStatus();
  const auto last = static_cast<int64_t>(plan.blocks.size()) - 1;
  if (!attn->Has("layers")) return attn->Error("layers", "missing");
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, attn->Ints("layers", 0, last));
  auto& nested = plan.nested.emplace_back(std::make_unique<ConfigReader>(*std::move(attn)));
  for (const int64_t layer : layers) {
    SublayerPlan& sublayer = plan.blocks[layer].sublayers.front();
    sublayer.mixer = "softmax_attn";
    sublayer.config = nested.get();
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelPlan> PlanLinearAttention(ConfigReader& config) {
  return PlanFla(config, "linear_attn");
}

absl::StatusOr<ModelPlan> PlanRetention(ConfigReader& config) {
  // Where the config does not say; an explicit null is the feed-forward half's own default.
  config.SetDefault("hidden_ratio", 2);
  return PlanFla(config, "retention");
}

absl::StatusOr<ModelPlan> PlanGla(ConfigReader& config) { return PlanFla(config, "gla"); }

absl::StatusOr<ModelPlan> PlanDeltaNet(ConfigReader& config) {
  return PlanFla(config, "delta_net");
}

absl::StatusOr<ModelPlan> PlanGatedDeltaNet(ConfigReader& config) {
  return PlanFla(config, "gated_delta_net");
}

// The baseline. The published config speaks of elementwise_affine, but every norm of the published
// layers has weights.
absl::StatusOr<ModelPlan> PlanTransformer(ConfigReader& config) {
  config.Ignore({"elementwise_affine"});
  config.SetDefault("num_heads", 32);
  return PlanFla(config, "softmax_attn");
}

}  // namespace fermata
