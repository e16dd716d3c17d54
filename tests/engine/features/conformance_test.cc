// Features that published implementations computed from a stored ω.

#include "tests/conformance.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/features/testing.h"

namespace fermata {
namespace {

// [a, b] to [b, a].
std::vector<float> Transpose(const std::vector<float>& matrix, int64_t a, int64_t b) {
  std::vector<float> result(matrix.size());
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j) result[j * a + i] = matrix[i * b + j];
  }
  return result;
}

struct Case {
  std::string file;
  std::string map;
  nlohmann::json options;
  bool omega_by_columns = true;  // ω is stored [head_dim, num_features].
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

class FeatureConformanceTest : public testing::TestWithParam<Case> {};

TEST_P(FeatureConformanceTest, MatchesThePublishedFeatures) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  Case test = GetParam();
  auto tensors = ReadSafetensors(*ConformanceDir() / "ops" / (test.file + ".safetensors"));
  const TestTensor& omega = tensors.at(test.omega_by_columns ? "omega" : "projection_matrix");
  const int64_t head_dim = omega.shape[test.omega_by_columns ? 0 : 1];
  const int64_t num_features = omega.shape[test.omega_by_columns ? 1 : 0];
  test.options["num_features"] = num_features;
  RandomWeights weights(1);
  weights.Set("map.omega", test.omega_by_columns ? Transpose(omega.values, head_dim, num_features)
                                                 : omega.values);
  const auto map = TryMakeMap(test.map, head_dim, test.options, weights);
  ASSERT_TRUE(map.ok()) << map.status();
  for (const std::string side : {"q", "k"}) {
    const auto& expected = tensors.at("phi_" + side).values;
    const auto features = Features(**map, tensors.at(side).values);
    ASSERT_EQ(features.size(), expected.size());
    for (size_t i = 0; i < features.size(); ++i) {
      ASSERT_NEAR(features[i], expected[i], 1e-5 * std::abs(expected[i]) + 1e-6)
          << side << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Published, FeatureConformanceTest,
    testing::Values(
        // Temperature 1/√16; that of the next one is 1.
        Case{"fast_transformers_causal_linear_favor", "favor", {{"hyperbolic", true}}},
        Case{"fast_transformers_causal_linear_favor_temp1",
             "favor",
             {{"hyperbolic", true}, {"scale", 1.0}}},
        Case{"fast_transformers_causal_linear_generalized_relu",
             "generalized_relu",
             {{"scale", 1.0}, {"epsilon", 0.0}}},
        Case{"performer_pytorch_generalized_relu", "generalized_relu", nlohmann::json::object(),
             false}),
    [](const auto& info) { return info.param.file; });

// This one has an ω for each head, and leaves out the divisor √num_features.
TEST(SlimPerformerTest, MatchesThePublishedFeatures) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const auto tensors =
      ReadSafetensors(*ConformanceDir() / "ops" / "slim_performer_favorplus.safetensors");
  const TestTensor& omegas = tensors.at("rfs");
  const int64_t heads = omegas.shape[0];
  const int64_t head_dim = omegas.shape[1];
  const int64_t num_features = omegas.shape[2];
  for (int64_t head = 0; head < heads; ++head) {
    const float* omega = &omegas.values[head * head_dim * num_features];
    RandomWeights weights(1);
    weights.Set("map.omega",
                Transpose({omega, omega + head_dim * num_features}, head_dim, num_features));
    const auto map = TryMakeMap("favor", head_dim, {{"num_features", num_features}}, weights);
    ASSERT_TRUE(map.ok()) << map.status();
    for (const std::string side : {"q", "k"}) {
      const auto features = Features(**map, tensors.at(side).values);
      const auto& expected = tensors.at("phi_" + side).values;
      for (size_t i = 0; i < features.size(); ++i) {
        if (static_cast<int64_t>(i) / num_features % heads != head) continue;
        ASSERT_NEAR(features[i] * std::sqrt(static_cast<float>(num_features)), expected[i],
                    1e-5 * std::abs(expected[i]) + 1e-7)
            << side << ", head " << head << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace fermata
