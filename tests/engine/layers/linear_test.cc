#include "engine/layers/linear.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kIn = 96;
constexpr int64_t kOut = 160;

std::vector<float> Values(const float* values, int64_t count) { return {values, values + count}; }

class LinearTest : public testing::Test {
 protected:
  Linear Read(const char* name, int64_t out, bool bias) {
    return Linear::Read(WeightScope(weights_, "m."), name, out, kIn, bias).value();
  }
  RandomWeights weights_{1};
  Arena arena_;
};

// In float64, from the tensors of these names.
TEST_F(LinearTest, IsTheProductPlusTheBias) {
  const Linear linear = Read("a", kOut, true);
  const auto matrix = weights_.Read("m.a.weight", std::vector<int64_t>{kOut, kIn}).value();
  const auto bias = weights_.Read("m.a.bias", std::vector<int64_t>{kOut}).value();
  constexpr int64_t kRows = 5;
  const auto x = RandomNormals(2, kRows * kIn);
  const float* y = linear.Apply(x.data(), kRows, arena_);
  const float* tanh = linear.Apply(x.data(), kRows, arena_, Activated(Activation::kTanh));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t out = 0; out < kOut; ++out) {
      double sum = bias[out];
      for (int64_t in = 0; in < kIn; ++in) {
        sum += static_cast<double>(matrix[out * kIn + in]) * x[row * kIn + in];
      }
      ASSERT_NEAR(y[row * kOut + out], sum, 1e-5);
      ASSERT_NEAR(tanh[row * kOut + out], std::tanh(sum), 1e-5);
    }
  }
}

TEST_F(LinearTest, AGroupGivesTheBitsOfEachAlone) {
  const Linear a = Read("a", kOut, true);
  const Linear b = Read("b", kOut, false);
  const Linear c = Read("c", 8, true);
  for (const int64_t rows : {1, 3, 100}) {
    const Arena::Scope scope(arena_);
    const auto x = RandomNormals(3, rows * kIn);
    const auto other = RandomNormals(4, rows * kIn);
    LinearGroup group(rows, arena_);
    const float* y_a = group.Add(a, x.data(), Activated(Activation::kSilu));
    const float* y_b = group.Add(b, other.data());
    const float* y_c = group.Add(c, x.data());
    group.Run();
    const float* alone_a = a.Apply(x.data(), rows, arena_, Activated(Activation::kSilu));
    EXPECT_EQ(Values(y_a, rows * kOut), Values(alone_a, rows * kOut));
    EXPECT_EQ(Values(y_b, rows * kOut), Values(b.Apply(other.data(), rows, arena_), rows * kOut));
    EXPECT_EQ(Values(y_c, rows * 8), Values(c.Apply(x.data(), rows, arena_), rows * 8));
    // It is empty again.
    const float* again = group.Add(a, x.data(), Activated(Activation::kSilu));
    group.Run();
    EXPECT_EQ(Values(again, rows * kOut), Values(alone_a, rows * kOut));
  }
}

TEST_F(LinearTest, ALowRankInTwoStepsIsTheSame) {
  const LowRank low_rank =
      LowRank::Read(
          WeightScope(weights_, "m."), "down", "up",
          {.in = kIn, .rank = 16, .out = kOut, .activation = Activation::kTanh, .bias = true})
          .value();
  constexpr int64_t kRows = 7;
  const auto x = RandomNormals(5, kRows * kIn);
  LinearGroup group(kRows, arena_);
  const float* inner = low_rank.AddDown(x.data(), group);
  group.Run();
  const float* y = low_rank.AddUp(inner, group);
  group.Run();
  EXPECT_EQ(Values(y, kRows * kOut), Values(low_rank.Apply(x.data(), kRows, arena_), kRows * kOut));
}

}  // namespace
}  // namespace fermata
