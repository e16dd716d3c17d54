#ifndef FERMATA_ENGINE_MIXERS_MAMBA2_H_
#define FERMATA_ENGINE_MIXERS_MAMBA2_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// Mamba-2 (Dao and Gu, "Transformers are SSMs", section 7), the mixer of the `mamba2` checkpoints of
// transformers, flash-linear-attention and, through its layout, the mamba_ssm library. The
// recurrence is in kernels/decay_rule.h, with one decay a head and token.
//
//   z, xBC, Δ = W_in u + b_in
//   x, B, C   = act(conv(xBC))                       B and C are shared by groups of heads
//   Δ, α      = softplus(Δ + dt_bias) within time_step_limit, exp(-e^A_log Δ)
//   S_t       = α_t S_{t-1} + B_t (Δ_t x_t)ᵀ         y = Sᵀ C + D x
//   out       = W_out RMSNorm(y ∘ silu(z)) + b_out
//
// | config           | default | meaning                                                          |
// | ---------------- | ------- | ---------------------------------------------------------------- |
// | expand           | 2       | width d of x over hidden_size                                    |
// | head_dim         | 64      | of x                                                             |
// | num_heads        |         | heads of x; d / head_dim, and nothing else where it is given     |
// | n_groups         | 8, fla 1 | heads of B and C; divides num_heads                             |
// | state_size       | 128     | size of a head of B and C                                        |
// | conv_kernel      | 4       | taps of the convolution                                          |
// | use_conv_bias    | true    | its bias                                                         |
// | hidden_act       | silu    | act, in transformers' words, or the library's for fla            |
// | use_bias         | false   | b_in and b_out                                                   |
// | time_step_limit  | [0, ∞]  | also called dt_limit                                             |
// | layer_norm_epsilon | 1e-5  | of the norm, which fla calls norm_eps: by that its configs are   |
// |                  |         | told from transformers'                                          |
// | norm_per_group   | false   | the norm is one of each group, as mamba_ssm has it; true for its |
// |                  |         | layout alone, the only one in which the next field counts        |
// | norm_before_gate | false   | RMSNorm(y) ∘ silu(z)                                             |
// | rms_norm         | true    | false, and no norm in the checkpoint: none. The published models |
// |                  |         | of transformers and fla have one in any case                     |
//
// D_has_hdim is refused. Fields that say how to initialise or to cut into chunks have no effect.
//
// Tensors: in_proj.weight [2 d + 2 · n_groups · state_size + num_heads, hidden] and .bias,
// conv1d.weight [d + 2 · n_groups · state_size, 1, conv_kernel] and .bias, dt_bias, A_log and D
// [num_heads], norm.weight [d], out_proj.weight [hidden, d] and .bias.
//
// State: S [num_heads, state_size, head_dim], conv [conv_kernel - 1, d + 2 · n_groups · state_size].
absl::StatusOr<std::unique_ptr<Mixer>> CreateMamba2(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_MAMBA2_H_
