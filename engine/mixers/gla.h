#ifndef FERMATA_ENGINE_MIXERS_GLA_H_
#define FERMATA_ENGINE_MIXERS_GLA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// Gated linear attention, the mixer of flash-linear-attention's `gla` checkpoints (Yang et al.,
// "Gated Linear Attention Transformers", section 4.4). The recurrence is in kernels/decay_rule.h,
// with a decay of each channel of k.
//
//   q, k, v = W_q x, W_k x, W_v x             each through its short convolution and SiLU, if any
//   q, k    = φ(q) / √head_k_dim, φ(k)        k, v and w are shared by groups of heads
//   w       = exp(max(log sigmoid(W_2 W_1 x + b) / gate_logit_normalizer, clamp_min))
//   o       = W_o (RMSNorm(recurrence(q, k, v, w)) ∘ act(W_g x))
//
// | config                | default   | meaning                                                  |
// | --------------------- | --------- | -------------------------------------------------------- |
// | num_heads             | 4         | heads of q, and of the state                             |
// | num_kv_heads          | num_heads | heads of k, v and w; divides num_heads                   |
// | expand_k              | 0.5       | width of all heads' q over hidden_size                   |
// | expand_v              | 1         | width of all heads' v                                    |
// | feature_map           | null      | φ, an activation in the library's words; null: identity  |
// | gate_low_rank_dim     | 16        | rows of W_1                                              |
// | gate_logit_normalizer | 16        |                                                          |
// | clamp_min             | null      | at most 0; null: none                                    |
// | use_output_gate       | true      | the gate act(W_g x)                                      |
// | hidden_act            | swish     | act, in the library's words                              |
// | elementwise_affine    | true      | whether the norm has weights                             |
// | norm_eps              | 1e-6      | its epsilon                                              |
// | use_short_conv        | false     | short convolutions                                       |
// | conv_size             | 4         | their taps                                               |
// | conv_bias             | false     | whether with biases                                      |
//
// The config's use_gk and use_gv are nothing that the published model reads.
//
// Tensors: {q,k,v,o}_proj.weight, gk_proj.0.weight [gate_low_rank_dim, hidden], gk_proj.1.weight
// and .bias [num_kv_heads · head_k_dim, …], g_proj.weight [num_heads · head_v_dim, hidden],
// {q,k,v}_conv1d.{weight,bias}, and the norm's g_norm_swish_gate.weight [head_v_dim], or
// g_norm.weight as it is called where the published model does not fuse norm and gate.
//
// State: S [num_heads, head_k_dim, head_v_dim], {q,k,v}_conv [conv_size - 1, width].
absl::StatusOr<std::unique_ptr<Mixer>> CreateGla(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_GLA_H_
