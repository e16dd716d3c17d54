// What every registered map must keep.

#include "engine/features/feature_map.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/features/testing.h"

namespace fermata {
namespace {

using testing::HasSubstr;

class FeatureMapTest : public testing::TestWithParam<FeatureMapEntry> {
 protected:
  std::unique_ptr<FeatureMap> Make(int64_t head_dim) { return MakeMap(GetParam().name, head_dim); }
};

TEST_P(FeatureMapTest, RowsAreIndependentAndFillTheirPlace) {
  for (const int64_t dim : {1, 3, 16, 64}) {
    const auto map = Make(dim);
    ASSERT_EQ(map->head_dim(), dim);
    ASSERT_GE(map->feature_dim(), 1);
    constexpr int64_t kRows = 37;
    constexpr float kGuard = 4711;
    const auto x = RandomNormals(5, kRows * dim);
    const int64_t width = map->feature_dim();
    std::vector<float> together(kRows * width + 1, kGuard);
    map->Apply(x.data(), kRows, together.data());
    EXPECT_EQ(together.back(), kGuard);
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> alone(width);
      map->Apply(&x[row * dim], 1, alone.data());
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), &together[row * width]))
          << "row " << row << " of dimension " << dim;
    }
  }
}

TEST_P(FeatureMapTest, KeepsItsSign) {
  const auto map = Make(16);
  const auto features = Features(*map, RandomNormals(6, 100 * 16));
  EXPECT_EQ(std::all_of(features.begin(), features.end(), [](float f) { return f >= 0; }),
            map->non_negative());
}

TEST_P(FeatureMapTest, IsFiniteForLongVectors) {
  const auto map = Make(16);
  for (const float length : {0.0f, 1e-20f, 30.0f, 1000.0f}) {
    auto x = RandomNormals(7, 20 * 16);
    for (float& value : x) value *= length;
    for (const float feature : Features(*map, x)) {
      ASSERT_TRUE(std::isfinite(feature)) << "at length " << length;
    }
  }
}

// A symmetric matrix's eigenvalues, by Jacobi's rotations.
std::vector<double> Eigenvalues(std::vector<std::vector<double>> a) {
  const size_t n = a.size();
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p][q] == 0) continue;
        const double theta = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(theta);
        const double s = std::sin(theta);
        for (size_t i = 0; i < n; ++i) {
          const double ip = a[i][p];
          a[i][p] = c * ip - s * a[i][q];
          a[i][q] = s * ip + c * a[i][q];
        }
        for (size_t i = 0; i < n; ++i) {
          const double pi = a[p][i];
          a[p][i] = c * pi - s * a[q][i];
          a[q][i] = s * pi + c * a[q][i];
        }
      }
    }
  }
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = a[i][i];
  return values;
}

// φ(x_i)·φ(x_j) is a kernel's Gram matrix only if q and k go through the same function.
TEST_P(FeatureMapTest, GramMatrixIsPositiveSemiDefinite) {
  constexpr int64_t kDim = 12;
  constexpr int64_t kPoints = 24;
  const auto as_query = Make(kDim);
  const auto as_key = Make(kDim);
  const auto x = RandomNormals(8, kPoints * kDim);
  const auto queries = Features(*as_query, x);
  const auto keys = Features(*as_key, x);
  const int64_t width = as_query->feature_dim();
  std::vector<std::vector<double>> gram(kPoints, std::vector<double>(kPoints));
  double largest = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    for (int64_t j = 0; j < kPoints; ++j) {
      gram[i][j] = Inner(&queries[i * width], &keys[j * width], width);
      largest = std::max(largest, std::abs(gram[i][j]));
    }
  }
  for (int64_t i = 0; i < kPoints; ++i) {
    for (int64_t j = 0; j < i; ++j) ASSERT_NEAR(gram[i][j], gram[j][i], 1e-9 * largest);
  }
  const auto eigenvalues = Eigenvalues(gram);
  EXPECT_GE(*std::min_element(eigenvalues.begin(), eigenvalues.end()), -1e-9 * largest);
  EXPECT_GT(*std::max_element(eigenvalues.begin(), eigenvalues.end()), 0);
}

INSTANTIATE_TEST_SUITE_P(Registered, FeatureMapTest, testing::ValuesIn(FeatureMaps()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CreateFeatureMapTest, AnUnknownNameListsTheNames) {
  RandomWeights weights(1);
  const auto status = TryMakeMap("elo", 4, nullptr, weights).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("elo"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("hedgehog"));
}

TEST(CreateFeatureMapTest, WrongOptionsAreNamed) {
  struct Wrong {
    std::string map;
    nlohmann::json options;
    std::string named;
  };
  const Wrong cases[] = {
      {"favor", {{"num_feature", 8}}, "num_feature"},
      {"favor", {{"num_features", 0}}, "num_features"},
      {"favor", {{"num_features", "many"}}, "num_features"},
      {"favor", {{"orthogonal", 1}}, "orthogonal"},
      {"favor", {{"hyperbolic", "yes"}}, "hyperbolic"},
      {"rff", {{"seed", -1}}, "seed"},
      {"rff", {{"hyperbolic", true}}, "hyperbolic"},
      {"generalized_relu", {{"epsilon", -1}}, "epsilon"},
      {"taylor", {{"order", 0}}, "order"},
      {"taylor", {{"scale", 0}}, "scale"},
      {"taylor", {{"degree", 2}}, "degree"},
      {"polynomial", {{"degree", 17}}, "degree"},
      {"polynomial", {{"constant", -1}}, "constant"},
      {"taylor", 3, "feature_map_options"},
  };
  for (const Wrong& wrong : cases) {
    RandomWeights weights(1);
    const auto status = TryMakeMap(wrong.map, 4, wrong.options, weights).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.named;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.named));
  }
}

TEST(CreateFeatureMapTest, MapsWithoutOptionsLeaveThemUnread) {
  ConfigReader config({{"feature_map_options", {{"order", 2}}}}, "config.json");
  RandomWeights weights(1);
  ASSERT_TRUE(
      CreateFeatureMap("elu",
                       {.head_dim = 4, .config = &config, .weights = WeightScope(weights, "map.")})
          .ok());
  EXPECT_THAT(config.Unread(), testing::ElementsAre("feature_map_options"));
}

TEST(CreateFeatureMapTest, MissingTensorsAreErrors) {
  for (const auto& [map, tensor] : {std::pair<std::string, std::string>{"hedgehog", "layer.bias"},
                                    {"t2r", "layer.weight"},
                                    {"elementwise_product", "layer2.weight"}}) {
    RandomWeights weights(1);
    weights.Remove("map." + tensor);
    const auto status = TryMakeMap(map, 4, nullptr, weights).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor));
  }
}

}  // namespace
}  // namespace fermata
