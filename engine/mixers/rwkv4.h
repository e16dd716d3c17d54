#ifndef FERMATA_ENGINE_MIXERS_RWKV4_H_
#define FERMATA_ENGINE_MIXERS_RWKV4_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"

namespace fermata {

// The time mix of RWKV-4 (Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", eqs.
// 11-13, 16 and 17). With δ the token before, less this one:
//
//   r, k, v = W_r (x + μ_r ∘ δ), W_k (x + μ_k ∘ δ), W_v (x + μ_v ∘ δ)
//   out     = W_o (σ(r) ∘ wkv(k, v))                           wkv as in kernels/wkv.h
//
// | config                | default     | meaning                       |
// | --------------------- | ----------- | ----------------------------- |
// | attention_hidden_size | hidden_size | A, the channels of r, k and v |
//
// Tensors: {r,k,v}_proj.weight [A, hidden], o_proj.weight [hidden, A], x_{r,k,v} [hidden] = μ,
// time_decay [A], of which w = -e^time_decay, time_first [A] = u.
//
// State: num, den, max [A], shift [hidden], the last x.
absl::StatusOr<std::unique_ptr<Mixer>> CreateRwkv4(const MixerOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV4_H_
