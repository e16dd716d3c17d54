#ifndef FERMATA_ENGINE_MODEL_ARCHITECTURES_PLANS_H_
#define FERMATA_ENGINE_MODEL_ARCHITECTURES_PLANS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/model/architecture.h"

namespace fermata {

// What the files of this folder share, and the rows they give to the table in architecture.cc.

inline constexpr int64_t kMaxHiddenSize = int64_t{1} << 20;
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 4096;

// Marks the fields in which published configs say how a model was made, stored and run, and that
// change nothing of a forward pass.
void IgnoreBookkeeping(ConfigReader& config);

// Puts softmax attention in the layers that the config's object `attn` lists, if there is one: each
// such block's first sublayer gets its mixer and the object for a config.
absl::Status PlanHybridLayers(ConfigReader& config, ModelPlan& plan);

// fla.cc: flash-linear-attention's models behind RMSNorms, with a gated MLP.
absl::StatusOr<ModelPlan> PlanLinearAttention(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanRetention(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanGla(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanDeltaNet(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanGatedDeltaNet(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanTransformer(ConfigReader& config);

// mamba2.cc: Mamba-2 in transformers' names.
absl::StatusOr<ModelPlan> PlanMamba2(ConfigReader& config);

// rwkv.cc.
absl::StatusOr<ModelPlan> PlanRwkv4(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanRwkv5(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanRwkv6(ConfigReader& config);
absl::StatusOr<ModelPlan> PlanRwkv7(ConfigReader& config);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_ARCHITECTURES_PLANS_H_
