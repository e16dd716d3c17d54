#include "engine/kernels/elementwise.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/kernels/targets.h"

namespace fermata {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Floats of every exponent and both signs, thousands of steps in all, with the ends of the range.
std::vector<float> WholeRange() {
  std::vector<float> values = {0.0f, -0.0f, 1e-45f, -1e-45f, 3.4028235e38f, -3.4028235e38f};
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 0x1fff3) {
    const auto value = std::bit_cast<float>(bits);
    values.push_back(value);
    values.push_back(-value);
  }
  // And closely where exponentials live.
  for (float value = -120; value < 120; value += 0.0173f) values.push_back(value);
  return values;
}

double Sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

double Gelu64(double x) {
  // The inner argument overflows for large x even in float64's cube only past 1e102.
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x * Sigmoid64(2 * inner);
}

struct Function {
  std::string_view name;
  void (*kernel)(const float*, float*, int64_t);
  std::function<double(double)> exact;
  double relative;  // Of the exact value.
  double absolute;
};

void PrintTo(const Function& function, std::ostream* out) { *out << function.name; }

constexpr double kUlp = 1.2e-7;
// Results below the smallest normal number may be off by a few steps.
constexpr double kDenormal = 6e-45;

class ElementwiseTest : public testing::TestWithParam<Function> {};

TEST_P(ElementwiseTest, IsAccurateOverTheWholeRange) {
  const Function& function = GetParam();
  const auto x = WholeRange();
  ForEachTarget([&](const char* target) {
    std::vector<float> y(x.size());
    function.kernel(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = function.exact(x[i]);
      if (std::abs(exact) > std::numeric_limits<float>::max()) {
        EXPECT_TRUE(std::isinf(y[i]) || std::abs(y[i]) > 3.4e38f) << target << ", at " << x[i];
      } else {
        ASSERT_NEAR(y[i], exact, function.relative * std::abs(exact) + function.absolute)
            << target << ", at " << x[i];
      }
    }
  });
}

TEST_P(ElementwiseTest, NanStaysNanAndInfinityDoesNoHarmBeside) {
  ForEachTarget([&](const char* target) {
    const float x[] = {1, kNan, 2, kInfinity, -1, -kInfinity, 0.5f, -kNan};
    float y[8];
    float alone;
    GetParam().kernel(x, y, 8);
    for (const int i : {1, 7}) EXPECT_TRUE(std::isnan(y[i])) << target;
    for (const int i : {0, 2, 4, 6}) {
      GetParam().kernel(&x[i], &alone, 1);
      EXPECT_EQ(y[i], alone) << target;
      EXPECT_TRUE(std::isfinite(y[i])) << target;
    }
  });
}

TEST_P(ElementwiseTest, EveryLengthAndAlignmentInPlaceOrNot) {
  constexpr int64_t kMost = 70;
  constexpr float kGuard = 4711;
  std::vector<float> x(kMost + 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 12;
  ForEachTarget([&](const char* target) {
    std::vector<float> each(x.size());
    for (size_t i = 0; i < x.size(); ++i) GetParam().kernel(&x[i], &each[i], 1);
    for (int64_t count = 0; count <= kMost; ++count) {
      for (const int64_t shift : {0, 1, 5, 15}) {
        std::vector<float> y(x.size(), kGuard);
        GetParam().kernel(&x[shift], &y[shift], count);
        std::vector<float> same = x;
        GetParam().kernel(&same[shift], &same[shift], count);
        for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
          const bool inside = i >= shift && i < shift + count;
          ASSERT_EQ(y[i], inside ? each[i] : kGuard) << target << ", " << count << ", " << shift;
          ASSERT_EQ(same[i], inside ? each[i] : x[i]) << target << ", " << count << ", " << shift;
        }
      }
    }
  });
}

TEST_P(ElementwiseTest, InstructionSetsWithFusedArithmeticAgree) {
  const auto x = WholeRange();
  std::vector<float> first;
  ForEachTarget([&](const char* target) {
    if (!HasFusedMultiplyAdd(target)) return;
    std::vector<float> y(x.size());
    GetParam().kernel(x.data(), y.data(), static_cast<int64_t>(x.size()));
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0) << target;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Functions, ElementwiseTest,
    testing::Values(
        Function{"Exp", Exp, [](double x) { return std::exp(x); }, 2 * kUlp, kDenormal},
        Function{"Relu", Relu, [](double x) { return std::max(x, 0.0); }, 0, 0},
        Function{"SquaredRelu", SquaredRelu,
                 [](double x) { return std::max(x, 0.0) * std::max(x, 0.0); }, kUlp, kDenormal},
        Function{"Tanh", Tanh, [](double x) { return std::tanh(x); }, 4 * kUlp, kDenormal},
        Function{"Softplus", Softplus,
                 [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
                 4 * kUlp, kDenormal},
        Function{"EluPlusOne", EluPlusOne, [](double x) { return x > 0 ? x + 1 : std::exp(x); },
                 2 * kUlp, kDenormal},
        Function{"Sigmoid", Sigmoid, Sigmoid64, 4 * kUlp, kDenormal},
        Function{"Silu", Silu, [](double x) { return x * Sigmoid64(x); }, 4 * kUlp, 1e-42},
        // The exponent's rounding error grows with the exponent, up to 100 here.
        Function{"Gelu", Gelu, Gelu64, 100 * kUlp, 1e-42},
        Function{"Sin", Sin, [](double x) { return std::sin(x); }, 0, 1e-6},
        Function{"Cos", Cos, [](double x) { return std::cos(x); }, 0, 1e-6}),
    [](const auto& info) { return std::string(info.param.name); });

// Functions of two arrays or of a number, against one multiplication or addition in float32, which
// has but one correct result.
TEST(ArithmeticTest, RoundsOnce) {
  for (const int64_t count : {0, 1, 3, 15, 16, 17, 67}) {
    std::vector<float> x(count + 1), y(count + 1);
    for (int64_t i = 0; i <= count; ++i) {
      x[i] = 1.0f / static_cast<float>(i + 3);
      y[i] = 0.7f * static_cast<float>(i) - 5;
    }
    ForEachTarget([&](const char* target) {
      auto sum = y, product = y, scaled = y, shifted = y, fused = y, out = y, gated = y;
      Add(x.data(), sum.data(), count);
      Multiply(x.data(), product.data(), count);
      Scale(0.3f, scaled.data(), count);
      Scale(0.3f, x.data(), out.data(), count);
      Shift(0.3f, shifted.data(), count);
      MultiplyAdd(0.3f, x.data(), fused.data(), count);
      SiluMultiply(y.data(), x.data(), gated.data(), count);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(sum[i], x[i] + y[i]) << target;
        ASSERT_EQ(product[i], x[i] * y[i]) << target;
        ASSERT_EQ(scaled[i], 0.3f * y[i]) << target;
        ASSERT_EQ(out[i], 0.3f * x[i]) << target;
        ASSERT_EQ(shifted[i], 0.3f + y[i]) << target;
        ASSERT_NEAR(fused[i], 0.3 * x[i] + y[i], 2e-7 * (1 + std::abs(y[i]))) << target;
        const double exact = y[i] * Sigmoid64(y[i]) * x[i];
        ASSERT_NEAR(gated[i], exact, 5 * kUlp * std::abs(exact)) << target;
      }
      for (const auto* array : {&sum, &product, &scaled, &out, &shifted, &fused, &gated}) {
        ASSERT_EQ(array->back(), y.back()) << target;
      }
    });
  }
}

TEST(BlendTest, GoesFromOneToTheOther) {
  for (const int64_t count : {0, 1, 3, 15, 16, 17, 67}) {
    std::vector<float> share(count), from(count), to(count);
    for (int64_t i = 0; i < count; ++i) {
      share[i] = static_cast<float>(i % 5) * 0.25f;
      from[i] = 1.0f / static_cast<float>(i + 3);
      to[i] = 0.7f * static_cast<float>(i) - 5;
    }
    ForEachTarget([&](const char* target) {
      std::vector<float> y(count + 1, 7.0f);
      Blend(share.data(), from.data(), to.data(), y.data(), count);
      auto in_place = to;
      Blend(share.data(), from.data(), in_place.data(), in_place.data(), count);
      for (int64_t i = 0; i < count; ++i) {
        const double exact = from[i] + static_cast<double>(share[i]) * (to[i] - from[i]);
        ASSERT_NEAR(y[i], exact, 2e-7 * (1 + std::abs(to[i]))) << target;
        ASSERT_EQ(in_place[i], y[i]) << target;
      }
      ASSERT_EQ(y.back(), 7.0f) << target;
    });
  }
}

TEST(ExpOfSumTest, AddsAndCutsOff) {
  ForEachTarget([](const char* target) {
    const float x[] = {0, 1, -3, 100, kInfinity, -kInfinity, kNan};
    float y[7];
    ExpOfSum(x, 2, 5, y, 7);
    EXPECT_NEAR(y[0], std::exp(2.0), 1e-5) << target;
    EXPECT_NEAR(y[1], std::exp(3.0), 1e-5) << target;
    EXPECT_NEAR(y[2], std::exp(-1.0), 1e-6) << target;
    EXPECT_NEAR(y[3], std::exp(5.0), 1e-4) << target;
    EXPECT_EQ(y[3], y[4]) << target;
    EXPECT_EQ(y[5], 0) << target;
    EXPECT_TRUE(std::isnan(y[6])) << target;
  });
}

TEST(InfinityTest, IsWhatTheLimitIs) {
  ForEachTarget([](const char* target) {
    const float x[] = {kInfinity, -kInfinity};
    float y[2];
    Exp(x, y, 2);
    EXPECT_EQ(y[0], kInfinity) << target;
    EXPECT_EQ(y[1], 0) << target;
    Sigmoid(x, y, 2);
    EXPECT_EQ(y[0], 1) << target;
    EXPECT_EQ(y[1], 0) << target;
    EluPlusOne(x, y, 2);
    EXPECT_EQ(y[0], kInfinity) << target;
    EXPECT_EQ(y[1], 0) << target;
  });
}

}  // namespace
}  // namespace fermata
