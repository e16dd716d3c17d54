#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>

#include "engine/base/parallel.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/part_clock.h"
#include "engine/model/layers.h"
#include "engine/model/model.h"

namespace fermata {
namespace {

// What normalising and adding a number are worth in multiply-adds (base/parallel.h), measured.
constexpr int64_t kNormWork = 32;
constexpr int64_t kAddWork = 8;

int64_t LogitsRows(const SequenceStep& step) {
  switch (step.logits) {
    case SequenceStep::Logits::kNone:
      return 0;
    case SequenceStep::Logits::kLast:
      return 1;
    case SequenceStep::Logits::kAll:
      return static_cast<int64_t>(step.tokens.size());
  }
  return 0;
}

}  // namespace

std::span<const float> Model::Forward(std::span<const SequenceStep> steps, Form form,
                                      Workspace& workspace) const {
  if (steps.empty()) return {};
  const Layers& layers = *layers_;
  const int64_t hidden = layers.hidden_size;
  Arena& arena = workspace.arena;
  const Arena::Scope scope(arena);
  workspace.sequences.clear();
  int64_t rows = 0;
  int64_t logits_rows = 0;
  for (const SequenceStep& step : steps) {
    assert(!step.tokens.empty());
    assert(step.state->fixed.bytes() == static_cast<size_t>(info_.state_bytes));
    const auto count = static_cast<int64_t>(step.tokens.size());
    workspace.sequences.push_back(
        {.begin = rows, .count = count, .position = step.state->position});
    rows += count;
    logits_rows += LogitsRows(step);
  }

  const Layers::Activations activations = {
      .rows = rows,
      .x = arena.Floats(rows * hidden),
      .normed = arena.Floats(rows * hidden),
      .mixed = arena.Floats(rows * hidden),
      .value_residual = arena.Floats(rows * layers.value_residual_floats)};
  float* const logits = arena.Floats(logits_rows * layers.vocab_size);
  layers.Embed(steps, activations.x);
  layers.Record(activations.x, rows, workspace);
  if (layers.embedding_norm.has_value()) {
    layers.embedding_norm->Apply(activations.x, rows, activations.x);
  }
  for (const Layers::Block& block : layers.blocks) {
    for (const Layers::Sublayer& sublayer : block.sublayers) {
      layers.Apply(sublayer, steps, workspace, activations, form);
    }
    if (block.scale != 1) Scale(block.scale, activations.x, rows * hidden);
    layers.Record(activations.x, rows, workspace);
  }
  if (workspace.hidden_states != nullptr) {
    layers.norm.Apply(activations.x, rows, activations.normed);
    layers.Record(activations.normed, rows, workspace);
  }
  layers.Head(steps, logits_rows, activations, logits);
  for (const SequenceStep& step : steps) {
    step.state->position += static_cast<int64_t>(step.tokens.size());
  }
  return {logits, static_cast<size_t>(logits_rows * layers.vocab_size)};
}

void Model::Layers::Embed(std::span<const SequenceStep> steps, float* x) const {
  for (const SequenceStep& step : steps) {
    for (const int32_t token : step.tokens) {
      assert(token >= 0 && token < vocab_size);
      x = std::copy_n(embeddings.data() + token * hidden_size, hidden_size, x);
    }
  }
}

void Model::Layers::Record(const float* x, int64_t rows, Workspace& workspace) const {
  if (workspace.hidden_states == nullptr) return;
  workspace.hidden_states->emplace_back(x, x + rows * hidden_size);
}

void Model::Layers::Apply(const Sublayer& sublayer, std::span<const SequenceStep> steps,
                          Workspace& workspace, const Activations& activations, Form form) const {
  const auto [rows, x, normed, mixed, value_residual] = activations;
  for (size_t i = 0; i < steps.size(); ++i) {
    SequenceState& state = *steps[i].state;
    SequenceRows& sequence = workspace.sequences[i];
    sequence.state = state.fixed.data() + sublayer.state_offset;
    sequence.cache = sublayer.cache.has_value() ? &state.caches[*sublayer.cache] : nullptr;
  }
  ParallelFor(rows, hidden_size * kNormWork,
              [&, x = x, normed = normed](int64_t begin, int64_t end) {
                const int64_t at = begin * hidden_size;
                sublayer.norm.Apply(x + at, end - begin, normed + at);
              });
  sublayer.mixer->Forward(workspace.sequences, normed, rows, mixed,
                          {.form = form,
                           .arena = &workspace.arena,
                           .counters = &workspace.counters,
                           .value_residual = value_residual});
  ParallelFor(rows, hidden_size * kAddWork, [&, x = x, mixed = mixed](int64_t begin, int64_t end) {
    const int64_t at = begin * hidden_size;
    Add(mixed + at, x + at, (end - begin) * hidden_size);
  });
}

void Model::Layers::Head(std::span<const SequenceStep> steps, int64_t logits_rows,
                         const Activations& activations, float* logits) const {
  if (logits_rows == 0) return;
  const float* end = activations.x;  // Of a step's rows.
  float* wanted = activations.mixed;
  for (const SequenceStep& step : steps) {
    end += static_cast<int64_t>(step.tokens.size()) * hidden_size;
    const int64_t count = LogitsRows(step) * hidden_size;
    wanted = std::copy(end - count, end, wanted);
  }
  norm.Apply(activations.mixed, logits_rows, activations.normed);
  const Product product = {.matrix = &head, .x = activations.normed, .y = logits};
  MultiplyTimed({&product, 1}, logits_rows);
}

}  // namespace fermata
