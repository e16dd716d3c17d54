#ifndef FERMATA_ENGINE_MIXERS_MIXER_H_
#define FERMATA_ENGINE_MIXERS_MIXER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/arena.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"
#include "engine/kernels/form.h"
#include "engine/layers/sequence.h"

namespace fermata {

// What forward passes count.
struct MixerCounters {
  int64_t denominator_clamps = 0;  // See kernels/decay_rule.h for the rule.
};

// What a forward pass needs beside its inputs; one thread's own.
struct MixerContext {
  Form form = Form::kRecurrent;
  Arena* arena = nullptr;
  MixerCounters* counters = nullptr;
  // Of the whole pass, [rows, value_residual_floats()]: the first layer's mixer writes it and those
  // of later layers read it. Null where no mixer has such floats.
  float* value_residual = nullptr;
};

// The part of a layer that mixes over time, or a layer's feed-forward half (a mixer that may have
// no state at all). Immutable after creation; Forward may run on several threads with different
// sequences and contexts.
//
// The contract that tests/engine/mixers/contract_test.cc holds every registered mixer to: forms
// agree at random cuts, a sequence's bits do not depend on its neighbours in the batch, and all
// that a sequence needs to go on is in `state`, `cache` and `position`.
class Mixer {
 public:
  virtual ~Mixer() = default;

  virtual std::span<const StateBlock> state_blocks() const = 0;

  // Floats appended to SequenceRows::cache for each token: 0 for every mixer with a fixed-size
  // state, 2 · kv_heads · head_dim for softmax attention.
  virtual int64_t cache_floats_per_position() const { return 0; }

  // What a softmax layer of the same shape would hold for each token in its KV cache:
  // 2 · kv_heads · head_dim floats; 0 for feed-forward halves.
  virtual int64_t kv_equivalent_floats_per_position() const { return 0; }

  // Floats for each token that layers share within one forward pass: RWKV-7's values of the first
  // layer. The same for all mixers of a model that have any.
  virtual int64_t value_residual_floats() const { return 0; }

  // out [rows, hidden] = the mixer's output for x [rows, hidden], where `sequences` covers the rows
  // without overlap. Advances each sequence's state past its rows. x and out must not overlap.
  virtual void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                       float* out, const MixerContext& context) const = 0;
};

// What a mixer is made from.
struct MixerOptions {
  int64_t hidden_size = 0;
  int64_t layer = 0;
  ConfigReader* config = nullptr;  // A mixer reads the fields that are its own.
  WeightScope weights;             // …layers.N.attn. or …layers.N.mlp.
};

// One row of the registry. `create` fails with INVALID_ARGUMENT or NOT_FOUND that names the field
// or the tensor.
struct MixerEntry {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Mixer>> (*create)(const MixerOptions& options);
};

// Every mixer there is, feed-forward halves included.
std::span<const MixerEntry> Mixers();

// The mixer that `name` stands for, or INVALID_ARGUMENT that lists the names there are.
absl::StatusOr<std::unique_ptr<Mixer>> CreateMixer(std::string_view name,
                                                   const MixerOptions& options);

// Floats of all of a mixer's state blocks.
int64_t StateFloats(const Mixer& mixer);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_MIXER_H_
