#ifndef FERMATA_TESTS_ENGINE_MODEL_RWKV_TENSORS_H_
#define FERMATA_TESTS_ENGINE_MODEL_RWKV_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance.h"

namespace fermata {

using Tensors = std::map<std::string, TestTensor>;

// Random tensors of small models, as BlinkDL names and shapes them.
inline constexpr int64_t kRwkvLayers = 4, kRwkvHidden = 24, kRwkvHeads = 3, kRwkvHeadDim = 8,
                         kRwkvInner = 40, kRwkvVocab = 19;
inline constexpr int64_t kRwkvRank = 5;  // The lowest of RWKV-6 and -7.

Tensors Rwkv4();
Tensors Rwkv5();
Tensors Rwkv6();
// The ranks of w, a, v and g are kRwkvRank, kRwkvRank + 1, …
Tensors Rwkv7();

// The rearrangements that converters are made of.

TestTensor Reshaped(TestTensor tensor, std::vector<int64_t> shape);
// The last two axes change places.
TestTensor Transposed(const TestTensor& tensor);
// The parts `order` of a tensor's first axis, which is cut into as many.
TestTensor Reordered(const TestTensor& tensor, const std::vector<int>& order);
TestTensor Scaled(TestTensor tensor, float factor);
// The tensors `prefix` + each of `names`, one after another.
TestTensor Stacked(const Tensors& tensors, const std::string& prefix,
                   const std::vector<std::string>& names, std::vector<int64_t> shape);
// Tensors under other names. The replacements apply in their order.
Tensors Renamed(const Tensors& tensors,
                const std::vector<std::pair<std::string, std::string>>& replacements);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MODEL_RWKV_TENSORS_H_
