#ifndef FERMATA_ENGINE_MODEL_RANDOM_WEIGHTS_H_
#define FERMATA_ENGINE_MODEL_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"

// Random numbers in the place of trained ones, for tests and benchmarks.
namespace fermata {

// Shapes of tensors by name.
using TensorShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

// Fills in the tensor `name` of `shape`, whose numbers `values` takes, row-major. They depend on the
// seed, the name and the shape alone. Matrices keep the variance of what they multiply, the weights
// of norms lie around one, biases around zero: activations stay near one at any depth.
void DrawTensor(uint64_t seed, std::string_view name, std::span<const int64_t> shape,
                std::span<float> values);

// A WeightSource that has every tensor anyone asks for.
class DrawnWeights : public WeightSource {
 public:
  explicit DrawnWeights(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  bool Has(std::string_view /*name*/) const override { return true; }

  // What was asked for.
  const TensorShapes& asked() const { return asked_; }

 private:
  uint64_t seed_;
  TensorShapes asked_;
};

// The tensors of the model that `config` describes, by their canonical names. Builds the model to
// find out, of zeros in 4 bits, and so takes that memory while it runs. Errors as of Model::Create.
absl::StatusOr<TensorShapes> ListTensors(ConfigReader& config);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_RANDOM_WEIGHTS_H_
