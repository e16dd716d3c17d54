#include "engine/model/architecture.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/model/architectures/plans.h"

namespace fermata {
namespace {

constexpr Architecture kArchitectures[] = {
    {"linear_attn", PlanLinearAttention},
    {"retnet", PlanRetention},
    {"gla", PlanGla},
    {"delta_net", PlanDeltaNet},
    {"gated_deltanet", PlanGatedDeltaNet},
    {"mamba2", PlanMamba2},
    {"transformer", PlanTransformer},
    {"rwkv", PlanRwkv4},  // As transformers calls it.
    {"rwkv4", PlanRwkv4},
    {"rwkv5", PlanRwkv5},
    {"rwkv6", PlanRwkv6},
    {"rwkv7", PlanRwkv7},
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
