#ifndef FERMATA_ENGINE_MIXERS_LINEAR_ATTENTION_H_
#define FERMATA_ENGINE_MIXERS_LINEAR_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The mixer of flash-linear-attention's `linear_attn` checkpoints, and what Fermata adds to it. The
// recurrence, its three forms and the rule for the denominator are in kernels/decay_rule.h.
//
//   q, k, v = W_q x, W_k x, W_v x           each through its short convolution and SiLU, if any
//   q, k    = φ_q(q) / √feature_dim, φ_k(k) head by head; k and v are shared by groups of heads
//   o       = W_o (RMSNorm(recurrence(q, k, v)) ∘ silu(W_g x))
//
// | config             | default             | meaning                                              |
// | ------------------ | ------------------- | ---------------------------------------------------- |
// | num_heads          | 4                   | heads of q, and of the state                         |
// | num_kv_heads       | num_heads           | heads of k and v; divides num_heads                  |
// | expand_k, expand_v | 1                   | width of all heads' q, and v, over hidden_size       |
// | feature_map        | elementwise_product | φ, by its name in features/, with its own fields     |
// | tie_feature_map_qk | false               | φ_k may be left out of the checkpoint: it is φ_q     |
// | norm_q, norm_k     | false               | features are divided by (their sum + 1e-4)           |
// | norm_feature_map   | false               | divide by qᵀz                                        |
// | output_norm        | rmsnorm             | of each head's output; or identity                   |
// | elementwise_affine | true                | whether that norm has weights                        |
// | norm_eps           | 1e-6                | its epsilon                                          |
//
// Fermata's additions:
//
// | config             | default             | meaning                                              |
// | ------------------ | ------------------- | ---------------------------------------------------- |
// | decay              | all 1               | γ in (0, 1] of each head, on S and on z              |
// | use_short_conv     | false               | depthwise causal convolutions                        |
// | conv_size          | 4                   | their taps                                           |
// | conv_bias          | false               | whether with biases                                  |
// | use_output_gate    | false               | the gate silu(W_g x)                                 |
//
// Tensors: {q,k,v,o}_proj.weight, norm.weight [head_v_dim], feature_map_{q,k}.*,
// {q,k,v}_conv1d.weight [width, 1, conv_size] and .bias [width], g_proj.weight [num_heads ·
// head_v_dim, hidden].
//
// State: S [num_heads, feature_dim, head_v_dim], z [num_heads, feature_dim] with norm_feature_map,
// {q,k,v}_conv [conv_size - 1, width] with use_short_conv: the last inputs, oldest first.
absl::StatusOr<std::unique_ptr<Mixer>> CreateLinearAttention(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_LINEAR_ATTENTION_H_
