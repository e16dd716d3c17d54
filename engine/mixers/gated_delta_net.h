#ifndef FERMATA_ENGINE_MIXERS_GATED_DELTA_NET_H_
#define FERMATA_ENGINE_MIXERS_GATED_DELTA_NET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The mixer of flash-linear-attention's `gated_deltanet` checkpoints (Yang, Kautz and Hatamizadeh,
// "Gated Delta Networks", section 3.3). The recurrence is in kernels/delta_rule.h.
//
//   q, k, v = silu(W_q x), silu(W_k x), silu(W_v x)    each through its short convolution, if any
//   q, k    = q / (‖q‖ √head_dim), k / ‖k‖             shared by groups of heads of v
//   β       = sigmoid(W_b x), times 2 for negative eigenvalues
//   α       = exp(-e^A_log softplus(W_a x + dt_bias))
//   S_t     = α_t S_{t-1} + β_t k_t (v_t - α_t S_{t-1}ᵀ k_t)ᵀ
//   o       = W_o (RMSNorm(Sᵀ q) ∘ silu(W_g x))
//
// | config           | default   | meaning                                                        |
// | ---------------- | --------- | -------------------------------------------------------------- |
// | num_heads        | 6         | heads of q and k                                               |
// | num_v_heads      | num_heads | heads of v and of the state; a multiple of num_heads           |
// | head_dim         | 256       | of q and k                                                     |
// | expand_v         | 2         | the size of a head of v is head_dim · expand_v, which is whole |
// | allow_neg_eigval | false     | β is doubled                                                   |
// | use_gate         | true      | the gate silu(W_g x)                                           |
// | norm_eps         | 1e-6      | the output norm's epsilon; that of ‖·‖ is 1e-6                 |
// | use_short_conv   | true      | short convolutions                                             |
// | conv_size        | 4         | their taps                                                     |
// | conv_bias        | false     | whether with biases                                            |
//
// Tensors: {q,k}_proj.weight [num_heads · head_dim, hidden], v_proj.weight and g_proj.weight
// [num_v_heads · head_v_dim, hidden], {a,b}_proj.weight [num_v_heads, hidden], A_log and dt_bias
// [num_v_heads], o_norm.weight [head_v_dim], o_proj.weight, {q,k,v}_conv1d.{weight,bias}.
//
// State: S [num_v_heads, head_dim, head_v_dim], {q,k,v}_conv [conv_size - 1, width].
absl::StatusOr<std::unique_ptr<Mixer>> CreateGatedDeltaNet(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_GATED_DELTA_NET_H_
