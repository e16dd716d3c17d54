#ifndef FERMATA_ENGINE_MODEL_MODEL_H_
#define FERMATA_ENGINE_MODEL_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/arena.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"
#include "engine/mixers/mixer.h"
#include "engine/model/load_progress.h"

namespace fermata {

// What a model is, apart from its weights.
struct ModelInfo {
  std::string name;    // The directory's name.
  std::string family;  // The config's model_type.
  std::string layout;  // Whose way of storing it this is, where it is not the canonical one.
  // 32 hex digits over config and weights; states belong to one fingerprint. Empty for a model that
  // was not loaded from a directory.
  std::string fingerprint;
  std::string weights_dtype;  // As stored, e.g. "BF16"; "mixed" for several; empty as above.
  std::map<std::string, int64_t> dtypes;  // How many of the tensors it uses are stored as what.
  // How matrices are held for multiplication, e.g. "bf16"; of several kinds, all, as "bf16+f32". With
  // the fingerprint it says which models compute the same numbers.
  std::string held_weights;
  int64_t parameters = 0;  // Numbers in the tensors that were read.
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  std::vector<int32_t> bos_token_ids;  // As config.json says; may be empty.
  std::vector<int32_t> eos_token_ids;

  // Bytes of the recurrent state of one sequence, at any position.
  int64_t state_bytes = 0;
  // Bytes that a softmax transformer of the same shape would hold for each token (float32, as the
  // state is): 2 · layers · kv_heads · head_dim · 4.
  int64_t kv_equivalent_bytes_per_token = 0;
  // The number of tokens from which that would be more than the state; 0 with no KV equivalent.
  int64_t break_even_tokens() const {
    if (kv_equivalent_bytes_per_token == 0) return 0;
    return state_bytes / kv_equivalent_bytes_per_token + 1;
  }
  // False when a layer's state grows with the position (softmax attention with no window): such a
  // model generates, but its sequences can not be kept as sessions.
  bool fixed_size_state = true;

  // Things a person should know about the directory, one line each (unused tensors, unread fields).
  std::vector<std::string> remarks;
};

// One sequence's recurrent state over all layers. Valid at exactly one position.
struct SequenceState {
  AlignedBuffer<float> fixed;              // All layers' blocks; ModelInfo::state_bytes bytes.
  std::vector<std::vector<float>> caches;  // One per sublayer that grows; none for linear models.
  int64_t position = 0;                    // Tokens consumed.

  // Makes it the state at position 0.
  void Clear();
  // Bytes that `caches` hold: the KV cache of softmax layers.
  int64_t cache_bytes() const;
};

// Where a block of the state lies, for tests and tools.
struct StateBlockInfo {
  std::string name;  // "layers.0.attn.S"
  std::vector<int64_t> shape;
  int64_t offset = 0;  // In floats, from SequenceState::fixed.
};

// The next tokens of one sequence.
struct SequenceStep {
  enum class Logits { kNone, kLast, kAll };

  std::span<const int32_t> tokens;  // At least one; each in [0, vocab_size).
  SequenceState* state = nullptr;
  Logits logits = Logits::kLast;
};

struct LoadOptions {
  // How weight matrices are held for multiplication (kernels/matmul.h says what each type loses);
  // nullopt for each as it is stored, as far as the processor multiplies that well.
  std::optional<WeightType> weights = WeightType::kF32;
  // Is told how far the loading is; may be null.
  LoadProgressFunction progress;
};

// Embedding, blocks of mixers, final norm and head. Immutable after loading. Forward may run on
// several threads with different states and workspaces.
class Model {
 public:
  // Scratch memory and counters of one thread's forward passes. It only grows, so that a steady
  // load allocates nothing.
  struct Workspace {
    Arena arena;
    std::vector<SequenceRows> sequences;
    MixerCounters counters;
    // When set, Forward appends the residual stream of all rows: the embeddings, then after each
    // block, then after the final norm. For tests.
    std::vector<std::vector<float>>* hidden_states = nullptr;
  };

  // Loads a directory as its authors publish it, or one file of weights: weights, and a config.json
  // where their layout has one (see layout.h). Errors name the file, and the field or the tensor.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& path,
                                                     const LoadOptions& options = {});

  // Builds the model that `config` describes from any source of weights.
  static absl::StatusOr<std::unique_ptr<Model>> Create(ConfigReader& config, WeightSource& weights);

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const ModelInfo& info() const { return info_; }
  const std::vector<StateBlockInfo>& state_blocks() const { return state_blocks_; }

  // A state at position 0.
  SequenceState NewState() const;

  // Feeds each step's tokens to its sequence, and advances its state and position. Returns the rows
  // of logits asked for, in the order of the steps and of their tokens: [n, vocab_size], valid
  // until the workspace is used again. No two steps may share a state; with no steps at all,
  // nothing happens.
  std::span<const float> Forward(std::span<const SequenceStep> steps, Form form,
                                 Workspace& workspace) const;

 private:
  struct Layers;

  Model();

  // Reads the weights and makes the layers, as `config` describes them.
  absl::Status Build(ConfigReader& config, WeightSource& weights);
  // Reads the tensor that a tied head is stored as, if it is, for its remark.
  absl::Status ReadTiedHead(WeightSource& weights);
  // Lays out the state, and fills in what info says of it.
  absl::Status AddState();

  ModelInfo info_;
  std::vector<StateBlockInfo> state_blocks_;
  std::unique_ptr<Layers> layers_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_MODEL_H_
