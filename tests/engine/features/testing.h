#ifndef FERMATA_TESTS_ENGINE_FEATURES_TESTING_H_
#define FERMATA_TESTS_ENGINE_FEATURES_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/features/feature_map.h"
#include "nlohmann/json.hpp"
#include "tests/random_weights.h"

namespace fermata {

// The map `name` with these options and with `weights` as its tensors.
absl::StatusOr<std::unique_ptr<FeatureMap>> TryMakeMap(std::string_view name, int64_t head_dim,
                                                       const nlohmann::json& map_options,
                                                       WeightSource& weights);

// The same with random weights and no stored ω; ends the test program when it can not be made.
std::unique_ptr<FeatureMap> MakeMap(std::string_view name, int64_t head_dim,
                                    const nlohmann::json& map_options = {});

// φ of each row of x.
std::vector<float> Features(const FeatureMap& map, const std::vector<float>& x);

// The inner product of two vectors, and the kernel φ(q)·φ(k), in float64.
double Inner(const float* a, const float* b, int64_t count);
double Kernel(const FeatureMap& map, const std::vector<float>& q, const std::vector<float>& k);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_FEATURES_TESTING_H_
