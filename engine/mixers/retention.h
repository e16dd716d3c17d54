#ifndef FERMATA_ENGINE_MIXERS_RETENTION_H_
#define FERMATA_ENGINE_MIXERS_RETENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The mixer of flash-linear-attention's `retnet` checkpoints (Sun et al., "Retentive Network",
// eqs. 5-8, with a plain rotary embedding). The recurrence is in kernels/decay_rule.h, with the decay
// γ = 1 - 2^(-5-h) of head h = 0, 1, ….
//
//   q, k, v = W_q x, W_k x, W_v x             each through its short convolution and SiLU, if any
//   q, k    = rotate(φ(q)) / √head_k_dim, rotate(φ(k))    k and v are shared by groups of heads
//   o       = W_o (RMSNorm(recurrence(q, k, v)) ∘ act(W_g x))
//
// | config             | default   | meaning                                                     |
// | ------------------ | --------- | ----------------------------------------------------------- |
// | num_heads          | 8         | heads of q, and of the state                                |
// | num_kv_heads       | num_heads | heads of k and v; divides num_heads                         |
// | expand_k           | 1         | width of all heads' q over hidden_size                      |
// | expand_v           | 2         | width of all heads' v                                       |
// | feature_map        | null      | φ, an activation in transformers' words; null: identity     |
// | use_output_gate    | true      | the gate act(W_g x)                                         |
// | hidden_act         | swish     | act, in transformers' words                                 |
// | elementwise_affine | true      | whether the norm has weights                                |
// | norm_eps           | 1e-6      | its epsilon                                                 |
// | use_short_conv     | false     | short convolutions, see below                               |
// | conv_size          | 4         | their taps                                                  |
// | conv_bias          | false     | whether with biases                                         |
//
// The published layer has convolutions and the published model makes it without them, whatever its
// config says: there are some when the config asks for them and the checkpoint has one.
//
// Tensors: {q,k,v,o}_proj.weight, g_proj.weight [num_heads · head_v_dim, hidden],
// {q,k,v}_conv1d.{weight,bias}, and the norm's g_norm_swish_gate.weight [head_v_dim], or
// g_norm.weight as it is called where the published model does not fuse norm and gate.
//
// State: S [num_heads, head_k_dim, head_v_dim], {q,k,v}_conv [conv_size - 1, width].
absl::StatusOr<std::unique_ptr<Mixer>> CreateRetention(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RETENTION_H_
