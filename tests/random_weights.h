#ifndef FERMATA_TESTS_RANDOM_WEIGHTS_H_
#define FERMATA_TESTS_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/weights.h"

namespace fermata {

// A WeightSource that has every tensor anyone asks for. A tensor's values depend on the seed, its
// name and its shape: matrices keep the variance of what they multiply, the weights of norms lie
// around one, biases around zero.
class RandomWeights : public WeightSource {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  bool Has(std::string_view name) const override;

  // Makes the tensor missing.
  void Remove(std::string_view name) { removed_.emplace(name); }
  // Gives the tensor these values, which must be as many as its shape has.
  void Set(std::string_view name, std::vector<float> values) {
    values_[std::string(name)] = std::move(values);
  }

  // What was asked for, with its shape.
  const std::map<std::string, std::vector<int64_t>, std::less<>>& asked() const { return asked_; }

 private:
  uint64_t seed_;
  std::set<std::string, std::less<>> removed_;
  std::map<std::string, std::vector<float>, std::less<>> values_;
  std::map<std::string, std::vector<int64_t>, std::less<>> asked_;
};

// `count` standard normals, drawn from `seed`.
std::vector<float> RandomNormals(uint64_t seed, int64_t count);

}  // namespace fermata

#endif  // FERMATA_TESTS_RANDOM_WEIGHTS_H_
