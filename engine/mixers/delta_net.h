#ifndef FERMATA_ENGINE_MIXERS_DELTA_NET_H_
#define FERMATA_ENGINE_MIXERS_DELTA_NET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The mixer of flash-linear-attention's `delta_net` checkpoints (Yang et al., "Parallelizing Linear
// Transformers with the Delta Rule", section 3.3). The recurrence is in kernels/delta_rule.h.
//
//   q, k, v = W_q x, W_k x, W_v x             each through its short convolution, if any
//   q, k, v = norm(act(q)) / √head_k_dim, norm(act(k)), silu(v)
//   β       = sigmoid(W_b x), times 2 for negative eigenvalues
//   S_t     = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ      o = W_o (RMSNorm(Sᵀ q) ∘ silu(W_g x))
//
// | config             | default | meaning                                                       |
// | ------------------ | ------- | ------------------------------------------------------------- |
// | num_heads          | 16      | heads                                                         |
// | expand_k, expand_v | 1       | width of all heads' q and k, and v, over hidden_size          |
// | qk_activation      | silu    | act: silu, relu, elu (plus 1) or identity                     |
// | qk_norm            | l2      | norm of each head: l2 (epsilon 1e-6) or sum (q / Σ q)         |
// | use_beta           | true    | else β is 1                                                   |
// | allow_neg_eigval   | false   | β is doubled                                                  |
// | use_gate           | false   | the gate silu(W_g x)                                          |
// | norm_eps           | 1e-6    | the output norm's epsilon                                     |
// | use_short_conv     | true    | short convolutions                                            |
// | conv_size          | 4       | their taps                                                    |
// | conv_bias          | false   | whether with biases                                           |
//
// The config's use_output_norm is nothing that the published model reads: there is always a norm.
//
// Tensors: {q,k,v,o}_proj.weight, b_proj.weight [num_heads, hidden], o_norm.weight [head_v_dim],
// g_proj.weight [num_heads · head_v_dim, hidden], {q,k,v}_conv1d.{weight,bias}.
//
// State: S [num_heads, head_k_dim, head_v_dim], {q,k,v}_conv [conv_size - 1, width].
absl::StatusOr<std::unique_ptr<Mixer>> CreateDeltaNet(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_DELTA_NET_H_
