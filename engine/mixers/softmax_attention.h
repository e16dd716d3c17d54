#ifndef FERMATA_ENGINE_MIXERS_SOFTMAX_ATTENTION_H_
#define FERMATA_ENGINE_MIXERS_SOFTMAX_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// Causal softmax attention with a KV cache (Vaswani et al., "Attention Is All You Need", eq. 1):
// the baseline that linear mixers are measured against, and the attention layers of hybrid models.
// The layout is flash-linear-attention's `Attention` layer.
//
// | config       | default   | meaning                                                             |
// | ------------ | --------- | ------------------------------------------------------------------- |
// | num_heads    |           | heads of q                                                          |
// | num_kv_heads | num_heads | heads of k and v, shared by groups of heads; divides num_heads      |
// | qkv_bias     | false     | biases on q, k and v                                                |
// | qk_norm      | false     | RMSNorm (epsilon 1e-5) of each head of q and k, before the rotation |
// | window_size  | null      | attend to so many tokens, the current one included; null: to all    |
// | rope_theta   | 10000     | base of the rotary embedding; an explicit null: none                |
//
// Tensors: {q,k,v,o}_proj.weight, {q,k,v}_proj.bias with qkv_bias, {q,k}_norm.weight [head_dim]
// with qk_norm. head_dim = hidden_size / num_heads.
//
// Cache, a row for each position: k, rotated, then v: 2 · num_kv_heads · head_dim floats. With a
// window it is the state block kv [window_size, 2 · num_kv_heads · head_dim] in its place, where
// position p has row p mod window_size.
//
// Nothing is carried between chunks but the cache itself, so there are two forms: the recurrent one
// goes through the cache in blocks with a running maximum, and is the chunkwise one too; the
// parallel one takes the softmax of whole rows of scores.
absl::StatusOr<std::unique_ptr<Mixer>> CreateSoftmaxAttention(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_SOFTMAX_ATTENTION_H_
