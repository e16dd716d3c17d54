#ifndef FERMATA_TESTS_RANDOM_WEIGHTS_H_
#define FERMATA_TESTS_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/random_weights.h"

namespace fermata {

// Drawn weights, of which a test can take some away and set others.
class RandomWeights : public DrawnWeights {
 public:
  explicit RandomWeights(uint64_t seed) : DrawnWeights(seed) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  bool Has(std::string_view name) const override { return !removed_.contains(name); }

  // Makes the tensor missing.
  void Remove(std::string_view name) { removed_.emplace(name); }
  // Gives the tensor these values, which must be as many as its shape has.
  void Set(std::string_view name, std::vector<float> values) {
    values_[std::string(name)] = std::move(values);
  }

 private:
  std::set<std::string, std::less<>> removed_;
  std::map<std::string, std::vector<float>, std::less<>> values_;
};

// `count` standard normals, drawn from `seed`.
std::vector<float> RandomNormals(uint64_t seed, int64_t count);

}  // namespace fermata

#endif  // FERMATA_TESTS_RANDOM_WEIGHTS_H_
