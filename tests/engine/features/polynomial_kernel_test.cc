// Taylor and polynomial maps: their inner product is a closed form.

#include <cmath>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/features/testing.h"

namespace fermata {
namespace {

int64_t Choose(int64_t n, int64_t k) {
  int64_t result = 1;
  for (int64_t i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

// Σ_{j ≤ order} t^j / j!.
double TaylorSum(double t, int64_t order) {
  double sum = 0;
  double term = 1;
  for (int64_t j = 0; j <= order; ++j) {
    sum += term;
    term *= t / static_cast<double>(j + 1);
  }
  return sum;
}

struct Pair {
  std::vector<float> q;
  std::vector<float> k;
  double product;  // q·k
  double length;   // |q| |k|, which bounds every partial sum of the product.
};

std::vector<Pair> RandomPairs(int64_t head_dim, int count) {
  std::vector<Pair> pairs;
  for (int i = 0; i < count; ++i) {
    Pair pair = {RandomNormals(2 * i, head_dim), RandomNormals(2 * i + 1, head_dim), 0, 0};
    pair.product = Inner(pair.q.data(), pair.k.data(), head_dim);
    pair.length = std::sqrt(Inner(pair.q.data(), pair.q.data(), head_dim) *
                            Inner(pair.k.data(), pair.k.data(), head_dim));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

TEST(TaylorTest, KernelIsTheTruncatedSeries) {
  for (const int64_t dim : {1, 2, 5, 16, 33}) {
    for (const int64_t order : {1, 2, 3, 4}) {
      const auto map = MakeMap("taylor", dim, {{"order", order}});
      EXPECT_EQ(map->feature_dim(), Choose(dim + order, dim)) << dim << ", " << order;
      for (const Pair& pair : RandomPairs(dim, 20)) {
        const double root = std::sqrt(static_cast<double>(dim));
        EXPECT_NEAR(Kernel(*map, pair.q, pair.k), TaylorSum(pair.product / root, order),
                    2e-6 * TaylorSum(pair.length / root, order))
            << dim << ", " << order;
      }
    }
  }
}

TEST(TaylorTest, ErrorIsWithinLagrangesBound) {
  constexpr int64_t kDim = 8;
  double last_worst = INFINITY;
  for (const int64_t order : {2, 4, 6, 8}) {
    const auto map = MakeMap("taylor", kDim, {{"order", order}});
    double worst = 0;
    for (const Pair& pair : RandomPairs(kDim, 50)) {
      const double t = pair.product / std::sqrt(double{kDim});
      double bound = std::exp(std::max(t, 0.0));
      for (int64_t j = 1; j <= order + 1; ++j) bound *= std::abs(t) / static_cast<double>(j);
      const double error = std::abs(Kernel(*map, pair.q, pair.k) - std::exp(t));
      EXPECT_LE(error, bound + 2e-6 * std::exp(pair.length / std::sqrt(double{kDim})))
          << "order " << order << ", t " << t;
      worst = std::max(worst, error);
    }
    EXPECT_LT(worst, last_worst);
    last_worst = worst;
  }
}

TEST(TaylorTest, ScaleIsOnBothSides) {
  const auto map = MakeMap("taylor", 2, {{"order", 3}, {"scale", 0.5}});
  EXPECT_NEAR(Kernel(*map, {2, 4}, {4, 2}), TaylorSum(16.0 / 4, 3), 1e-4);
}

// Written out by hand: (x₁y₁ + x₂y₂)² = x₁²y₁² + 2 x₁x₂y₁y₂ + x₂²y₂².
TEST(PolynomialTest, FeaturesOfDegreeTwo) {
  const auto map = MakeMap("polynomial", 2);
  EXPECT_THAT(Features(*map, {3, 5}),
              testing::Pointwise(testing::FloatEq(), {9.0f, std::sqrt(2.0f) * 15, 25.0f}));
}

TEST(PolynomialTest, KernelIsThePower) {
  for (const int64_t dim : {1, 3, 8, 17}) {
    for (const int64_t degree : {1, 2, 3, 5}) {
      for (const double constant : {0.0, 1.0, 2.5}) {
        const auto map = MakeMap("polynomial", dim, {{"degree", degree}, {"constant", constant}});
        EXPECT_EQ(map->feature_dim(),
                  constant == 0 ? Choose(dim + degree - 1, degree) : Choose(dim + degree, degree));
        for (const Pair& pair : RandomPairs(dim, 10)) {
          const auto power = static_cast<double>(degree);
          EXPECT_NEAR(Kernel(*map, pair.q, pair.k), std::pow(pair.product + constant, power),
                      4e-6 * std::pow(pair.length + constant, power))
              << dim << ", " << degree << ", " << constant;
        }
      }
    }
  }
}

TEST(PolynomialTest, TooManyMonomialsAreRefused) {
  RandomWeights weights(1);
  EXPECT_EQ(TryMakeMap("taylor", 64, {{"order", 8}}, weights).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(TryMakeMap("polynomial", 1024, {{"degree", 16}}, weights).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace fermata
