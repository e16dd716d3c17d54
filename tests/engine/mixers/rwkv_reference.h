#ifndef FERMATA_TESTS_ENGINE_MIXERS_RWKV_REFERENCE_H_
#define FERMATA_TESTS_ENGINE_MIXERS_RWKV_REFERENCE_H_

#include <cstdint>
#include <string>

#include "tests/engine/mixers/testing.h"

namespace fermata {

// Parts of RWKV in float64, as the papers' formulas stand. x is [rows, hidden].

// x_{t-1} - x_t, with zeros before the first.
Doubles ReferenceShift(const Doubles& x, int64_t hidden);
// x + mu ∘ δ.
Doubles ReferenceMix(const Doubles& x, const Doubles& mu);
// The same with the tensor "m.<name>" [hidden] for mu.
Doubles ReferenceMix(RandomWeights& weights, const std::string& name, const Doubles& x,
                     int64_t hidden);
// W (x + mu ∘ δ) with the tensors "m.<mu>" and "m.<linear>.weight" [out, hidden].
Doubles ReferenceMixedLinear(RandomWeights& weights, const std::string& mu,
                             const std::string& linear, const Doubles& x, int64_t hidden,
                             int64_t out);
// Each row of x [rows, dim] less its mean, over √(variance + eps), times "m.<name>.weight" plus
// "m.<name>.bias" [groups · dim], where rows are of that many groups.
void ReferenceGroupNorm(RandomWeights& weights, const std::string& name, Doubles& x, int64_t dim,
                        int64_t groups, double eps);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MIXERS_RWKV_REFERENCE_H_
