#ifndef FERMATA_TESTS_ENGINE_FORMATS_TESTING_H_
#define FERMATA_TESTS_ENGINE_FORMATS_TESTING_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/formats/stored_tensor.h"
#include "engine/formats/widen.h"

namespace fermata {

using TensorReader = absl::StatusOr<StoredTensors> (*)(std::span<const std::byte>,
                                                       std::string_view source);

// All the numbers of a file that can be read, of its tensors in the order of their names.
inline absl::StatusOr<std::vector<float>> ReadNumbers(TensorReader read, std::string_view bytes) {
  // A copy that is exactly as long, so that a read past it is seen.
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const auto tensors = read({copy.get(), bytes.size()}, "file");
  if (!tensors.ok()) return tensors.status();
  std::vector<float> numbers;
  for (const auto& [name, tensor] : *tensors) {
    if (!CanWiden(tensor.dtype)) continue;
    std::vector<float> values(tensor.size());
    Widen(tensor.dtype, tensor.data, values);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_FORMATS_TESTING_H_
