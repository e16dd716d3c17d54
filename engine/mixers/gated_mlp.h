#ifndef FERMATA_ENGINE_MIXERS_GATED_MLP_H_
#define FERMATA_ENGINE_MIXERS_GATED_MLP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The feed-forward half of most published layers: out = W_down (act(W_gate x) ∘ W_up x)
// (Shazeer, "GLU Variants Improve Transformer", eq. 6). No state.
//
// | config              | default | meaning                                                     |
// | ------------------- | ------- | ----------------------------------------------------------- |
// | hidden_act          | swish   | act; swish, also spelled silu, is the one there is          |
// | intermediate_size   |         | rows of W_gate and W_up                                     |
// | hidden_ratio        | 4       | without intermediate_size: it is ⌊hidden · ratio · 2/3⌋,    |
// |                     |         | rounded up to a multiple of 256                             |
//
// Tensors: {gate,up}_proj.weight [intermediate, hidden], down_proj.weight [hidden, intermediate];
// or, as older checkpoints have it, no up_proj and gate_proj.weight [2 · intermediate, hidden], the
// gate's rows first.
absl::StatusOr<std::unique_ptr<Mixer>> CreateGatedMlp(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_GATED_MLP_H_
