// The maps that are formulas, against the formula in float64.

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/features/testing.h"

namespace fermata {
namespace {

constexpr int64_t kDim = 6;
constexpr int64_t kRows = 50;

using Row = std::vector<double>;

// Weights [kDim, kDim] and biases [kDim] that the map under test reads too.
class ClosedFormTest : public testing::Test {
 protected:
  Row Affine(const Row& x, const std::string& layer, bool with_bias) {
    const int64_t matrix_shape[] = {kDim, kDim};
    const int64_t bias_shape[] = {kDim};
    const auto weights = *weights_.Read("map." + layer + ".weight", matrix_shape);
    Row y(kDim);
    for (int64_t i = 0; i < kDim; ++i) {
      for (int64_t j = 0; j < kDim; ++j) y[i] += weights[i * kDim + j] * x[j];
      if (with_bias) y[i] += (*weights_.Read("map." + layer + ".bias", bias_shape))[i];
    }
    return y;
  }

  void Check(std::string_view name, const std::function<Row(const Row&)>& formula) {
    const auto map = TryMakeMap(name, kDim, nullptr, weights_);
    ASSERT_TRUE(map.ok()) << map.status();
    std::vector<float> x = RandomNormals(2, kRows * kDim);
    for (float& value : x) value *= 3;
    const auto features = Features(**map, x);
    for (int64_t row = 0; row < kRows; ++row) {
      const Row expected = formula(Row(&x[row * kDim], &x[row * kDim] + kDim));
      ASSERT_EQ(expected.size(), (*map)->feature_dim());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(features[row * expected.size() + i], expected[i],
                    2e-6 * (1 + std::abs(expected[i])))
            << "row " << row << ", feature " << i;
      }
    }
  }

  RandomWeights weights_{3};
};

TEST_F(ClosedFormTest, Elu) {
  Check("elu", [](Row x) {
    for (double& value : x) value = value > 0 ? value + 1 : std::exp(value);
    return x;
  });
}

TEST_F(ClosedFormTest, Relu) {
  Check("relu", [](Row x) {
    for (double& value : x) value = std::max(value, 0.0);
    return x;
  });
}

TEST_F(ClosedFormTest, Identity) {
  Check("identity", [](const Row& x) { return x; });
}

TEST_F(ClosedFormTest, Hedgehog) {
  Check("hedgehog", [this](const Row& x) {
    const Row y = Affine(x, "layer", true);
    Row features;
    for (const double value : y) features.push_back(std::exp(2 * value));
    for (const double value : y) features.push_back(std::exp(-2 * value));
    double sum = 0;
    for (const double value : features) sum += value;
    for (double& value : features) value /= sum;
    return features;
  });
}

TEST_F(ClosedFormTest, T2r) {
  Check("t2r", [this](const Row& x) {
    Row y = Affine(x, "layer", false);
    for (double& value : y) value = std::max(value, 0.0);
    return y;
  });
}

TEST_F(ClosedFormTest, ElementwiseProduct) {
  Check("elementwise_product", [this](const Row& x) {
    Row y = Affine(x, "layer1", true);
    const Row second = Affine(x, "layer2", true);
    for (int64_t i = 0; i < kDim; ++i) y[i] *= second[i];
    return y;
  });
}

TEST_F(ClosedFormTest, Dpfp) {
  Check("dpfp", [](const Row& x) {
    constexpr int64_t kSize = 2 * kDim;
    Row features;
    for (int64_t j = 1; j <= 4; ++j) {
      for (int64_t i = 0; i < kSize; ++i) {
        const auto rectified = [&](int64_t at) {
          return at < kDim ? std::max(x[at], 0.0) : -std::max(x[at - kDim], 0.0);
        };
        features.push_back(rectified(i) * rectified((i - j + kSize) % kSize));
      }
    }
    return features;
  });
}

}  // namespace
}  // namespace fermata
