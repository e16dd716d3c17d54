#ifndef FERMATA_ENGINE_MODEL_ARCHITECTURE_H_
#define FERMATA_ENGINE_MODEL_ARCHITECTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/layers/norm.h"

namespace fermata {

// A norm of the residual stream: its module, and what it is.
struct NormPlan {
  std::string name;
  NormOptions options;
};

// One step of a block: x += mixer(norm(x)). Names of modules are relative to the block.
struct SublayerPlan {
  NormPlan norm;                   // "attn_norm"
  std::string mixer;               // Name in the registry of mixers.
  std::string name;                // Module of the mixer, and what its state blocks are called by.
  ConfigReader* config = nullptr;  // Where the mixer's fields stand.
};

struct BlockPlan {
  std::vector<SublayerPlan> sublayers;
  float scale = 1;  // What the residual stream is multiplied with after them.
};

// How a model of one architecture is put together and where its tensors are. Refers to the config
// that it was made from.
struct ModelPlan {
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  std::string embeddings;                  // Tensor [vocab_size, hidden_size].
  std::optional<NormPlan> embedding_norm;  // Of the embeddings, before the first block.
  std::string layers;                      // Prefix of the blocks; a block's number follows.
  NormPlan norm;                           // The final one.
  std::string head;                        // Tensor [vocab_size, hidden_size].
  std::vector<BlockPlan> blocks;
  // Objects inside the config that mixers read from.
  std::vector<std::unique_ptr<ConfigReader>> nested;
};

// One row of the table of architectures. `plan` fails with INVALID_ARGUMENT that names the field.
struct Architecture {
  std::string_view model_type;  // As config.json spells it.
  absl::StatusOr<ModelPlan> (*plan)(ConfigReader& config);
};

// Every architecture there is.
std::span<const Architecture> Architectures();

// The plan of the model that `config` describes. INVALID_ARGUMENT for an unknown model_type, with
// the list of those there are.
absl::StatusOr<ModelPlan> PlanModel(ConfigReader& config);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_ARCHITECTURE_H_
