#ifndef FERMATA_ENGINE_MIXERS_RWKV_CHANNEL_MIX_H_
#define FERMATA_ENGINE_MIXERS_RWKV_CHANNEL_MIX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The feed-forward half of RWKV's layers. With δ the token before, less this one:
//
//   out = σ(W_r (x + μ_r ∘ δ)) ∘ W_v act(W_k (x + μ_k ∘ δ))   RWKV-4, -5, -6 (Peng et al. 2023,
//                                                             eqs. 14, 15 and 18)
//   out = W_v act(W_k (x + μ_k ∘ δ))                          RWKV-7 (Peng et al. 2025)
//
// | config            | default      | meaning                                               |
// | ----------------- | ------------ | ----------------------------------------------------- |
// | hidden_act        | sqrelu       | act                                                   |
// | intermediate_size |              | rows of W_k                                           |
// | hidden_ratio      | 3.5; 4 for 7 | without intermediate_size: it is ⌊hidden · ratio⌋,    |
// |                   |              | rounded up to a multiple of 32                        |
//
// Tensors: key.weight [intermediate, hidden], value.weight [hidden, intermediate], x_k [hidden] = μ_k
// and, but in RWKV-7, receptance.weight [hidden, hidden], x_r [hidden] = μ_r.
//
// State: shift [hidden], the last x.
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkvChannelMix(const MixerOptions& options);
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv7ChannelMix(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV_CHANNEL_MIX_H_
