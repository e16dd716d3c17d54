#ifndef FERMATA_ENGINE_MIXERS_RWKV6_H_
#define FERMATA_ENGINE_MIXERS_RWKV6_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The time mix of RWKV-6 (Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic
// Recurrence", section 4.2). With δ the token before, less this one, and for each c of r, w, k, v, g:
//
//   x_c        = x + (μ_c + B_c tanh(A_c (x + μ_x ∘ δ))) ∘ δ
//   r, k, v, g = W_r x_r, W_k x_k, W_v x_v, W_g x_g
//   w          = e^-e^(w_0 + B tanh(A x_w))
//   o          = the recurrence of kernels/decay_rule.h on r, k, v with w and u
//   out        = W_o (LayerNorm of each head(o) ∘ gate_fn(g))
//
// | config             | default  | meaning                                              |
// | ------------------ | -------- | ---------------------------------------------------- |
// | num_heads          | 4        | heads                                                |
// | expand_k           | 0.5      | key_dim, the width of r, k and w, over hidden_size   |
// | expand_v           | 1        | value_dim, the width of v and g, over hidden_size    |
// | proj_low_rank_dim  | 32       | rows of each A_c                                     |
// | gate_low_rank_dim  | 64       | rows of A                                            |
// | gate_fn            | swish    | activation of the gate                               |
// | norm_eps           | 1e-5     |                                                      |
// | g_norm_eps         | norm_eps | epsilon of the heads' norm; BlinkDL has 64e-5        |
// | elementwise_affine | true     | whether that norm has weights                        |
//
// Tensors: x_x, x_{r,w,k,v,g} [hidden] = μ, x_{r,w,k,v,g}_lora.lora.0.weight [rank, hidden] = A_c and
// .2.weight [hidden, rank] = B_c; w_lora.lora.0.weight [rank, hidden] = A, .2.weight [key_dim, rank]
// = B, .2.bias = w_0; {r,k}_proj.weight [key_dim, hidden], {v,g}_proj.weight [value_dim, hidden],
// o_proj.weight [hidden, value_dim], bonus [num_heads, key_dim / num_heads] = u,
// g_norm.{weight,bias} [value_dim].
//
// State: S [num_heads, key_dim / num_heads, value_dim / num_heads], shift [hidden], the last x.
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv6(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV6_H_
