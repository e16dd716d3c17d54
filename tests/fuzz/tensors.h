#ifndef FERMATA_TESTS_FUZZ_TENSORS_H_
#define FERMATA_TESTS_FUZZ_TENSORS_H_

#include <vector>

#include "engine/formats/stored_tensor.h"
#include "engine/formats/widen.h"

namespace fermata {

// Reads all numbers of a file that was found right.
inline void ReadAll(const StoredTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!CanWiden(tensor.dtype)) continue;
    std::vector<float> values(tensor.size());
    Widen(tensor.dtype, tensor.data, values);
  }
}

}  // namespace fermata

#endif  // FERMATA_TESTS_FUZZ_TENSORS_H_
