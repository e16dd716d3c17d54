// Random feature maps as estimators: what their mean and variance over many seeds must be is known
// in closed form.

#include <cmath>
#include <functional>
#include <vector>

#include "engine/features/random_projection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/features/testing.h"

namespace fermata {
namespace {

constexpr int64_t kDim = 8;
constexpr int64_t kDraws = 3000;

struct Statistics {
  double mean = 0;
  double variance = 0;
};

// Of φ(q)·φ(k) over kDraws seeds, for maps that take x as it is.
Statistics OverSeeds(std::string_view name, nlohmann::json options, const std::vector<float>& q,
                     const std::vector<float>& k) {
  options["scale"] = 1.0;
  double sum = 0;
  double squares = 0;
  for (int64_t seed = 0; seed < kDraws; ++seed) {
    options["seed"] = seed;
    const double estimate = Kernel(*MakeMap(name, kDim, options), q, k);
    sum += estimate;
    squares += estimate * estimate;
  }
  const double mean = sum / kDraws;
  return {mean, (squares / kDraws - mean * mean) * kDraws / (kDraws - 1)};
}

// A vector of the given length.
std::vector<float> Vector(uint64_t seed, double length) {
  std::vector<float> x = RandomNormals(seed, kDim);
  const double norm = std::sqrt(Inner(x.data(), x.data(), kDim));
  for (float& value : x) value = static_cast<float>(value * length / norm);
  return x;
}

// What a random map estimates, and the variance of the estimate by one independent direction.
struct Estimator {
  std::string_view name;
  double kernel;
  double variance;
};

// q·k = a, |q|² + |k|² = b.
Estimator Gaussian(double a, double b) {
  // One direction gives cos(ω·(q - k)), whose mean is κ and whose variance is (1 - κ²)² / 2.
  const double kernel = std::exp(a - b / 2);
  return {"rff", kernel, std::pow(1 - kernel * kernel, 2) / 2};
}

Estimator Exponential(double a, double b) {
  // One direction gives exp(ω·(q + k) - b/2), log-normal with variance κ² (exp(|q + k|²) - 1).
  return {"favor", std::exp(a), std::exp(2 * a) * std::expm1(b + 2 * a)};
}

class RandomFeaturesTest : public testing::TestWithParam<std::function<Estimator(double, double)>> {
 protected:
  Estimator estimator() const {
    return GetParam()(Inner(q_.data(), k_.data(), kDim),
                      Inner(q_.data(), q_.data(), kDim) + Inner(k_.data(), k_.data(), kDim));
  }

  const std::vector<float> q_ = Vector(1, 0.8);
  const std::vector<float> k_ = Vector(2, 0.7);
};

// Five standard errors: a wrong scale, norm or sign is tens of them away.
constexpr double kConfidence = 5;

TEST_P(RandomFeaturesTest, IsUnbiased) {
  const Estimator expected = estimator();
  for (const bool orthogonal : {false, true}) {
    const auto got = OverSeeds(std::string(expected.name),
                               {{"num_features", 16}, {"orthogonal", orthogonal}}, q_, k_);
    EXPECT_NEAR(got.mean, expected.kernel, kConfidence * std::sqrt(got.variance / kDraws))
        << "orthogonal " << orthogonal;
    EXPECT_LT(std::sqrt(got.variance / kDraws), 0.02) << "the interval says nothing";
  }
}

TEST_P(RandomFeaturesTest, VarianceOfIndependentDirectionsFallsAsTheirNumber) {
  const Estimator expected = estimator();
  for (const int64_t features : {4, 16, 64}) {
    const auto got = OverSeeds(std::string(expected.name),
                               {{"num_features", features}, {"orthogonal", false}}, q_, k_);
    EXPECT_NEAR(got.variance * static_cast<double>(features) / expected.variance, 1, 0.25)
        << features;
  }
}

TEST_P(RandomFeaturesTest, OrthogonalDirectionsAreNoWorse) {
  const Estimator expected = estimator();
  for (const int64_t features : {8, 32}) {
    const auto got = OverSeeds(std::string(expected.name),
                               {{"num_features", features}, {"orthogonal", true}}, q_, k_);
    EXPECT_LT(got.variance, expected.variance / static_cast<double>(features)) << features;
  }
}

INSTANTIATE_TEST_SUITE_P(Maps, RandomFeaturesTest, testing::Values(Gaussian, Exponential),
                         [](const auto& info) { return info.index == 0 ? "Rff" : "Favor"; });

TEST(FavorTest, HyperbolicIsUnbiased) {
  const auto q = Vector(1, 0.8);
  const auto k = Vector(2, 0.7);
  const auto got = OverSeeds("favor", {{"num_features", 16}, {"hyperbolic", true}}, q, k);
  EXPECT_NEAR(got.mean, std::exp(Inner(q.data(), k.data(), kDim)),
              kConfidence * std::sqrt(got.variance / kDraws));
}

TEST(FavorTest, ApproachesTheSoftmaxKernelAsFeaturesGrow) {
  constexpr int64_t kHeadDim = 16;
  double last_error = INFINITY;
  for (const int64_t features : {16, 256, 4096}) {
    const auto map = MakeMap("favor", kHeadDim, {{"num_features", features}, {"seed", 5}});
    double error = 0;
    for (int i = 0; i < 40; ++i) {
      const auto q = RandomNormals(2 * i, kHeadDim);
      const auto k = RandomNormals(2 * i + 1, kHeadDim);
      const double exact =
          std::exp(Inner(q.data(), k.data(), kHeadDim) / std::sqrt(double{kHeadDim}));
      error += std::pow(Kernel(*map, q, k) / exact - 1, 2) / 40;
    }
    EXPECT_LT(error, last_error / 3) << features;
    last_error = error;
  }
  EXPECT_LT(last_error, 0.3);
}

// No exponent passes |ω|²/2, wherever x lies; with x at ω itself, the worst there is.
TEST(FavorTest, StaysFiniteAtItsWorst) {
  for (const int64_t dim : {64, 512}) {
    RandomWeights weights(1);
    std::vector<float> omega = RandomNormals(7, 2 * dim * dim);
    weights.Set("map.omega", omega);
    const auto map = TryMakeMap("favor", dim, {{"scale", 1.0}}, weights);
    ASSERT_TRUE(map.ok()) << map.status();
    omega.resize(dim);
    EXPECT_TRUE(std::isfinite(Kernel(**map, omega, omega)));
    EXPECT_GT(Kernel(**map, omega, omega), 0);
    const float product = Features(**map, omega)[0];
    EXPECT_TRUE(std::isfinite(product * product));
  }
}

TEST(ProjectionTest, OrthogonalRowsAreOrthogonalAndOfNormalLength) {
  constexpr int64_t kRows = 40;  // Five blocks.
  double square_sum = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto omega =
        DrawProjection({.num_features = kRows, .head_dim = kDim, .orthogonal = true, .seed = seed});
    for (int64_t a = 0; a < kRows; ++a) {
      square_sum += Inner(&omega[a * kDim], &omega[a * kDim], kDim);
      for (int64_t b = a / kDim * kDim; b < a; ++b) {
        ASSERT_NEAR(Inner(&omega[a * kDim], &omega[b * kDim], kDim), 0, 1e-5);
      }
    }
  }
  // |ω|² is χ² with kDim degrees of freedom: mean kDim, variance 2 kDim.
  const double rows = 200.0 * kRows;
  EXPECT_NEAR(square_sum / rows, kDim, kConfidence * std::sqrt(2 * kDim / rows));
}

TEST(ProjectionTest, SeedsDiffer) {
  ProjectionOptions options = {.num_features = 4, .head_dim = kDim, .orthogonal = false, .seed = 1};
  const auto first = DrawProjection(options);
  const auto again = DrawProjection(options);
  options.seed = 2;
  const auto other = DrawProjection(options);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), again.begin()));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], other[i]);
}

}  // namespace
}  // namespace fermata
