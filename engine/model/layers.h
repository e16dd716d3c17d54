#ifndef FERMATA_ENGINE_MODEL_LAYERS_H_
#define FERMATA_ENGINE_MODEL_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/kernels/matmul.h"
#include "engine/layers/norm.h"
#include "engine/mixers/mixer.h"
#include "engine/model/model.h"

namespace fermata {

// The weights of a model as its forward pass wants them, and where each layer's state lies. Private
// to the model.
struct Model::Layers {
  // x += mixer(norm(x)).
  struct Sublayer {
    std::string name;  // "layers.0.attn"
    Norm norm;
    std::unique_ptr<Mixer> mixer;
    int64_t state_offset = 0;     // In floats, from SequenceState::fixed.
    std::optional<size_t> cache;  // In SequenceState::caches, for a mixer that grows.
  };
  struct Block {
    std::vector<Sublayer> sublayers;
    float scale = 1;  // Of the residual stream after them.
  };

  // Of one forward pass: [rows, hidden] each.
  struct Activations {
    int64_t rows = 0;
    float* x = nullptr;  // The residual stream.
    float* normed = nullptr;
    float* mixed = nullptr;
    float* value_residual = nullptr;  // See MixerContext.
  };

  // x = the embeddings of all tokens.
  void Embed(std::span<const SequenceStep> steps, float* x) const;
  void Apply(const Sublayer& sublayer, std::span<const SequenceStep> steps, Workspace& workspace,
             const Activations& activations, Form form) const;
  // logits [logits_rows, vocab] = the head on the rows that the steps ask for.
  void Head(std::span<const SequenceStep> steps, int64_t logits_rows,
            const Activations& activations, float* logits) const;
  // Appends x [rows, hidden] where a test has asked for it.
  void Record(const float* x, int64_t rows, Workspace& workspace) const;

  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  AlignedBuffer<float> embeddings;  // [vocab, hidden]
  std::optional<Norm> embedding_norm;
  std::vector<Block> blocks;
  Norm norm;
  PackedMatrix head;      // [vocab, hidden]
  std::string tied_head;  // What it would be called, were it not the embeddings.
  int64_t state_floats = 0;
  int64_t value_residual_floats = 0;
  size_t num_caches = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYERS_H_
