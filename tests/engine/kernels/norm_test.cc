#include "engine/kernels/norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kDims[] = {1, 2, 5, 15, 16, 17, 64, 100, 192, 1000};
constexpr int64_t kRows = 3;
constexpr float kEps = 1e-5f;

struct Inputs {
  explicit Inputs(int64_t dim)
      : x(RandomNormals(1, kRows * dim)),
        weight(RandomNormals(2, dim)),
        bias(RandomNormals(3, dim)) {
    for (float& value : x) value = 3 * value + 1;
  }
  std::vector<float> x, weight, bias;
};

double Mean(const float* x, int64_t dim, double power, double center) {
  double sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += std::pow(x[i] - center, power);
  return sum / static_cast<double>(dim);
}

TEST(NormTest, RmsNormMatchesFloat64) {
  for (const int64_t dim : kDims) {
    Inputs in(dim);
    ForEachTarget([&](const char* target) {
      std::vector<float> plain(in.x.size()), weighted(in.x.size());
      RmsNorm(in.x.data(), nullptr, kRows, dim, kEps, plain.data());
      RmsNorm(in.x.data(), in.weight.data(), kRows, dim, kEps, weighted.data());
      for (int64_t i = 0; i < kRows * dim; ++i) {
        const double scale = 1 / std::sqrt(Mean(&in.x[i / dim * dim], dim, 2, 0) + kEps);
        ASSERT_NEAR(plain[i], in.x[i] * scale, 2e-6 * std::abs(in.x[i] * scale))
            << target << ", " << dim;
        const double exact = in.x[i] * scale * in.weight[i % dim];
        ASSERT_NEAR(weighted[i], exact, 2e-6 * std::abs(exact)) << target << ", " << dim;
      }
      RmsNorm(in.x.data(), in.weight.data(), kRows, dim, kEps, plain.data());
      std::vector<float> in_place = in.x;
      RmsNorm(in_place.data(), in.weight.data(), kRows, dim, kEps, in_place.data());
      ASSERT_EQ(in_place, plain) << target << ", " << dim;
    });
  }
}

TEST(NormTest, LayerNormMatchesFloat64) {
  for (const int64_t dim : kDims) {
    Inputs in(dim);
    ForEachTarget([&](const char* target) {
      std::vector<float> plain(in.x.size()), full = in.x;
      LayerNorm(in.x.data(), nullptr, nullptr, kRows, dim, kEps, plain.data());
      LayerNorm(full.data(), in.weight.data(), in.bias.data(), kRows, dim, kEps, full.data());
      for (int64_t i = 0; i < kRows * dim; ++i) {
        const float* row = &in.x[i / dim * dim];
        const double mean = Mean(row, dim, 1, 0);
        const double normal = (in.x[i] - mean) / std::sqrt(Mean(row, dim, 2, mean) + kEps);
        ASSERT_NEAR(plain[i], normal, 2e-5) << target << ", " << dim;
        ASSERT_NEAR(full[i], normal * in.weight[i % dim] + in.bias[i % dim], 5e-5)
            << target << ", " << dim;
      }
    });
  }
}

// What a one-pass variance, E[x²] - E[x]², loses.
TEST(NormTest, LayerNormKeepsASmallVarianceOfLargeNumbers) {
  const std::vector<float> x = {10000, 10001, 10002, 10003};
  std::vector<float> y(4);
  LayerNorm(x.data(), nullptr, nullptr, 1, 4, 0, y.data());
  const double deviation = std::sqrt(1.25);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], (i - 1.5) / deviation, 1e-6);
}

TEST(NormTest, LengthsMatchFloat64) {
  for (const int64_t dim : kDims) {
    Inputs in(dim);
    std::fill_n(in.x.begin(), dim, 0.0f);  // A row of zeros stays one.
    ForEachTarget([&](const char* target) {
      std::vector<float> l2(in.x.size()), unit(in.x.size());
      L2Norm(in.x.data(), kRows, dim, kEps, l2.data());
      UnitNorm(in.x.data(), kRows, dim, kEps, unit.data());
      for (int64_t i = 0; i < kRows * dim; ++i) {
        const double squares = Mean(&in.x[i / dim * dim], dim, 2, 0) * static_cast<double>(dim);
        const double tolerance = 2e-6 * std::abs(in.x[i]);
        ASSERT_NEAR(l2[i], in.x[i] / std::sqrt(squares + kEps), tolerance) << target << ", " << dim;
        ASSERT_NEAR(unit[i], in.x[i] / std::max(std::sqrt(squares), double{kEps}), tolerance)
            << target << ", " << dim;
      }
    });
  }
}

TEST(NormTest, SoftmaxMatchesFloat64) {
  for (const int64_t dim : kDims) {
    for (const float scale : {0.1f, 1.0f, 50.0f}) {
      Inputs in(dim);
      for (float& value : in.x) value *= scale;
      ForEachTarget([&](const char* target) {
        std::vector<float> y = in.x;
        Softmax(y.data(), kRows, dim);
        for (int64_t i = 0; i < kRows * dim; ++i) {
          double sum = 0;  // Of e^(x_j - x_i).
          for (int64_t j = 0; j < dim; ++j)
            sum += std::exp(double{in.x[i / dim * dim + j]} - in.x[i]);
          ASSERT_NEAR(y[i], 1 / sum, 3e-6 / sum + 1e-37) << target << ", " << dim;
        }
      });
    }
  }
}

TEST(NormTest, SoftmaxOfExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ForEachTarget([](const char* target) {
    std::vector<float> masked = {-kInfinity, 1, -kInfinity, 1};
    Softmax(masked.data(), 1, 4);
    EXPECT_THAT(masked, testing::ElementsAre(0, 0.5f, 0, 0.5f)) << target;
    std::vector<float> large = {3e38f, -3e38f};
    Softmax(large.data(), 1, 2);
    EXPECT_THAT(large, testing::ElementsAre(1, 0)) << target;
    std::vector<float> negative(17, -1000.0f);
    Softmax(negative.data(), 1, 17);
    for (const float value : negative) EXPECT_NEAR(value, 1.0 / 17, 1e-7) << target;
  });
}

TEST(NormTest, SumsMatchFloat64) {
  for (const int64_t dim : kDims) {
    const auto a = RandomNormals(4, dim);
    const auto b = RandomNormals(5, dim);
    double dot = 0, sum = 0, magnitude = 0, total = 0;
    for (int64_t i = 0; i < dim; ++i) {
      dot += double{a[i]} * b[i];
      magnitude += std::abs(double{a[i]} * b[i]);
      sum += a[i];
      total += std::abs(a[i]);
    }
    ForEachTarget([&](const char* target) {
      EXPECT_NEAR(Dot(a.data(), b.data(), dim), dot, 1e-6 * magnitude) << target << ", " << dim;
      EXPECT_NEAR(Sum(a.data(), dim), sum, 1e-6 * total) << target << ", " << dim;
    });
  }
  EXPECT_EQ(Dot(nullptr, nullptr, 0), 0);
}

// The order of sums is the same for every vector width and place in memory.
TEST(NormTest, BitsDoNotDependOnWidthAlignmentOrRows) {
  for (const int64_t dim : kDims) {
    const Inputs in(dim);
    std::vector<std::vector<float>> results;
    ForEachTarget([&](const char* target) {
      if (!HasFusedMultiplyAdd(target)) return;
      for (const int64_t shift : {0, 1, 7}) {
        std::vector<float> x(shift, 0.0f);
        x.insert(x.end(), in.x.begin(), in.x.end());
        std::vector<float> y(4 * kRows * dim + 2);
        RmsNorm(&x[shift], in.weight.data(), kRows, dim, kEps, &y[0]);
        LayerNorm(&x[shift], in.weight.data(), in.bias.data(), kRows, dim, kEps, &y[kRows * dim]);
        y[4 * kRows * dim] = Dot(&x[shift], &x[shift + dim], dim);
        y[4 * kRows * dim + 1] = Sum(&x[shift], dim);
        for (int64_t row = 0; row < kRows; ++row) {
          RmsNorm(&x[shift + row * dim], in.weight.data(), 1, dim, kEps,
                  &y[(2 * kRows + row) * dim]);
        }
        ASSERT_TRUE(std::equal(&y[0], &y[kRows * dim], &y[2 * kRows * dim])) << target;
        Softmax(&x[shift], kRows, dim);
        std::copy_n(&x[shift], kRows * dim, &y[3 * kRows * dim]);
        results.push_back(std::move(y));
        EXPECT_EQ(results.back(), results.front()) << target << ", " << dim << ", " << shift;
      }
    });
  }
}

}  // namespace
}  // namespace fermata
