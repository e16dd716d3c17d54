#include "engine/model/random_weights.h"

#include <cmath>
#include <memory>

#include "engine/base/parallel.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/model/model.h"

namespace fermata {
namespace {

constexpr int64_t kWorkOfANormal = 2000;  // Beside the multiplications that ParallelFor counts.

// FNV-1a.
uint64_t Hash(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

int64_t Count(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// Zeros for whatever is asked for.
class ZeroWeights : public WeightSource {
 public:
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    asked[std::string(name)] = {shape.begin(), shape.end()};
    return AlignedBuffer<float>(Count(shape));
  }
  bool Has(std::string_view /*name*/) const override { return true; }
  // What takes the least memory.
  WeightType matrix_type(std::string_view /*name*/) const override { return WeightType::kInt4; }

  TensorShapes asked;
};

}  // namespace

void DrawTensor(uint64_t seed, std::string_view name, std::span<const int64_t> shape,
                std::span<float> values) {
  const bool matrix = shape.size() > 1;
  const double scale = matrix ? 1 / std::sqrt(static_cast<double>(shape.back())) : 0.2;
  const double mean = !matrix && name.ends_with(".weight") ? 1 : 0;
  const uint64_t key = Hash(name, seed);
  ParallelFor(static_cast<int64_t>(values.size()), kWorkOfANormal, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      values[i] = static_cast<float>(mean + scale * PhiloxNormal(key, i, 0));
    }
  });
}

absl::StatusOr<AlignedBuffer<float>> DrawnWeights::Read(std::string_view name,
                                                        std::span<const int64_t> shape) {
  asked_[std::string(name)] = {shape.begin(), shape.end()};
  AlignedBuffer<float> values(Count(shape));
  DrawTensor(seed_, name, shape, values.span());
  return values;
}

absl::StatusOr<TensorShapes> ListTensors(ConfigReader& config) {
  ZeroWeights weights;
  FERMATA_RETURN_IF_ERROR(Model::Create(config, weights).status());
  return std::move(weights.asked);
}

}  // namespace fermata
