#include "tests/engine/features/testing.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fermata {

absl::StatusOr<std::unique_ptr<FeatureMap>> TryMakeMap(std::string_view name, int64_t head_dim,
                                                       const nlohmann::json& map_options,
                                                       WeightSource& weights) {
  ConfigReader config({{"feature_map_options", map_options}}, "config.json");
  return CreateFeatureMap(
      name, {.head_dim = head_dim, .config = &config, .weights = WeightScope(weights, "map.")});
}

std::unique_ptr<FeatureMap> MakeMap(std::string_view name, int64_t head_dim,
                                    const nlohmann::json& map_options) {
  RandomWeights weights(1);
  weights.Remove("map.omega");
  auto map = TryMakeMap(name, head_dim, map_options, weights);
  if (!map.ok()) {
    std::fprintf(stderr, "%s\n", map.status().ToString().c_str());
    std::abort();
  }
  return *std::move(map);
}

std::vector<float> Features(const FeatureMap& map, const std::vector<float>& x) {
  const int64_t rows = static_cast<int64_t>(x.size()) / map.head_dim();
  std::vector<float> out(rows * map.feature_dim());
  map.Apply(x.data(), rows, out.data());
  return out;
}

double Inner(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return sum;
}

double Kernel(const FeatureMap& map, const std::vector<float>& q, const std::vector<float>& k) {
  return Inner(Features(map, q).data(), Features(map, k).data(), map.feature_dim());
}

}  // namespace fermata
