#include "tests/random_weights.h"

#include <algorithm>

#include "engine/base/philox.h"

namespace fermata {

absl::StatusOr<AlignedBuffer<float>> RandomWeights::Read(std::string_view name,
                                                         std::span<const int64_t> shape) {
  auto values = DrawnWeights::Read(name, shape);
  if (!Has(name)) return absl::NotFoundError(std::string(name) + ": missing");
  if (const auto it = values_.find(name); it != values_.end()) {
    if (it->second.size() != values->size()) {
      return absl::InvalidArgumentError(std::string(name) + ": wrong shape");
    }
    std::copy(it->second.begin(), it->second.end(), values->data());
  }
  return values;
}

std::vector<float> RandomNormals(uint64_t seed, int64_t count) {
  std::vector<float> result(count);
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<float>(PhiloxNormal(seed, i, 1));
  return result;
}

}  // namespace fermata
