#ifndef FERMATA_ENGINE_MIXERS_RWKV7_H_
#define FERMATA_ENGINE_MIXERS_RWKV7_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The time mix of RWKV-7 (Peng et al., "RWKV-7 Goose with Expressive Dynamic State Evolution",
// section 4.1). With x_c = x + μ_c ∘ δ for each c of r, w, k, v, a, g, where δ is the token before,
// less this one:
//
//   r, k, v = W_r x_r, W_k x_k, W_v x_v
//   w       = e^(-e^-½ σ(w_0 + B_w tanh(A_w x_w)))
//   a       = σ(a_0 + B_a A_a x_a)                     the in-context learning rate
//   g       = B_g σ(A_g x_g)
//   v       = v + (v of the first layer - v) ∘ σ(v_0 + B_v A_v x_v)          but in the first layer
//   κ       = k ∘ k_k, each head of length 1
//   k       = k ∘ (1 + (a - 1) ∘ k_a)
//   o       = the recurrence of kernels/delta_rule.h on r, k, v, -κ, κ ∘ a with w
//   out     = W_o ((LayerNorm of each head(o) + (Σ r ∘ k ∘ r_k) v) ∘ g)
//
// | config             | default             | meaning                                             |
// | ------------------ | ------------------- | --------------------------------------------------- |
// | head_dim           | 64                  | width of a head's r and k; divides hidden_size      |
// | num_heads          |                     | in the place of a head_dim that is null             |
// | value_dim          | hidden_size         | width of v and g: one number, or one for each layer |
// | decay_low_rank_dim | by the size         | rows of A_w; where one of the four is not given it  |
// | a_low_rank_dim     |                     | is c √hidden_size rounded to a multiple of 32, at   |
// | v_low_rank_dim     |                     | least 32, with c = 5 for g, and head_dim/64 times   |
// | gate_low_rank_dim  |                     | 2.5, 2.5 and 1.7 for w, a and v                     |
// | fuse_norm          | true                | κ = x / √(Σx² + 1e-6); else x / max(√Σx², 1e-12)    |
// | norm_eps           | 1e-5                |                                                     |
// | g_norm_eps         | head_dim · norm_eps | epsilon of the heads' norm                          |
// | elementwise_affine | true                | whether that norm has weights                       |
//
// Tensors: x_{r,w,k,v,a,g} [hidden], {w,a,v,g}_lora.lora.0.weight [rank, hidden] and .2.weight [out,
// rank], {w,a,v}_lora.lora.2.bias [out] (no v_lora in the first layer), k_k, k_a [hidden],
// r_k [heads, head_dim], {r,k}_proj.weight [hidden, hidden], v_proj.weight [value_dim, hidden],
// o_proj.weight [hidden, value_dim], g_norm.{weight,bias} [value_dim].
//
// State: S [heads, head_dim, value_dim / heads], shift [hidden], the last x.
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv7(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV7_H_
