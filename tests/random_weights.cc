#include "tests/random_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/base/philox.h"

namespace fermata {
namespace {

// FNV-1a.
uint64_t Hash(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

absl::StatusOr<AlignedBuffer<float>> RandomWeights::Read(std::string_view name,
                                                         std::span<const int64_t> shape) {
  asked_[std::string(name)] = {shape.begin(), shape.end()};
  if (!Has(name)) return absl::NotFoundError(std::string(name) + ": missing");
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  AlignedBuffer<float> result(size);
  if (const auto it = values_.find(name); it != values_.end()) {
    if (static_cast<int64_t>(it->second.size()) != size) {
      return absl::InvalidArgumentError(std::string(name) + ": wrong shape");
    }
    std::copy(it->second.begin(), it->second.end(), result.data());
    return result;
  }
  const bool matrix = shape.size() > 1;
  const double scale = matrix ? 1 / std::sqrt(static_cast<double>(shape.back())) : 0.2;
  const double mean = !matrix && EndsWith(name, ".weight") ? 1 : 0;
  const uint64_t key = Hash(name, seed_);
  for (int64_t i = 0; i < size; ++i) {
    result[i] = static_cast<float>(mean + scale * PhiloxNormal(key, i, 0));
  }
  return result;
}

bool RandomWeights::Has(std::string_view name) const { return !removed_.contains(name); }

std::vector<float> RandomNormals(uint64_t seed, int64_t count) {
  std::vector<float> result(count);
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<float>(PhiloxNormal(seed, i, 1));
  return result;
}

}  // namespace fermata
