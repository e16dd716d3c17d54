#ifndef FERMATA_ENGINE_MIXERS_RWKV5_H_
#define FERMATA_ENGINE_MIXERS_RWKV5_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The time mix of RWKV-5 (Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic
// Recurrence", section 4.1), and of its forerunners 5.0 and 5.1. With δ the token before, less this
// one:
//
//   r, k, v, g = W_r (x + μ_r ∘ δ), …
//   o          = the recurrence of kernels/decay_rule.h on r, k, v with w = e^-e^time_decay and u
//   out        = W_o (LayerNorm of each head(o) ∘ silu(g))
//
// | config                | default     | meaning                                                  |
// | --------------------- | ----------- | -------------------------------------------------------- |
// | num_heads             |             | heads                                                    |
// | attention_hidden_size | hidden_size | A, the channels of r, k, v and g; a multiple of the heads |
// | decay_per_channel     | true        | false: one w and one u for each head (5.0 and 5.1)       |
// | use_gate              | true        | false: no g (5.0)                                        |
// | g_norm_eps            | 64e-5       | epsilon of the heads' norm                               |
//
// Tensors: {r,k,v,g}_proj.weight [A, hidden], o_proj.weight [hidden, A], x_{r,k,v,g} [hidden] = μ,
// time_decay and bonus (u) [A] or [num_heads], g_norm.{weight,bias} [A].
//
// State: S [num_heads, A / num_heads, A / num_heads], shift [hidden], the last x.
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv5(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV5_H_
