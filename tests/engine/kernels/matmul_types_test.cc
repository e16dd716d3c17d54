// What the narrow types compute, and what they lose.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/kernels/matmul.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/stored_blocks.h"
#include "tests/random_weights.h"

// Before Highway is included: the narrow types have kernels for this target as well.
#define HWY_WANT_AVX3_DL
#include "tests/engine/kernels/targets.h"

namespace fermata {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Size {
  int64_t out_features;
  int64_t in_features;
};

constexpr Size kSizes[] = {{1, 1}, {3, 5}, {65, 33}, {64, 128}, {33, 1}, {100, 77}, {200, 512}};

using Pack = std::unique_ptr<MatmulBackend> (*)(const float*, int64_t, int64_t);

struct Backend {
  const char* name;
  Pack pack;
};

constexpr Backend kInt8Backends[] = {
    {"Int8Lines",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kAllRows); }},
    {"Int8OneDnn",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kNoRows); }},
};

constexpr Backend kBf16Backends[] = {
    {"Bf16Lines",
     [](const float* w, int64_t out, int64_t in) { return PackBf16Lines(w, out, in); }},
    {"Bf16LinesWithoutDotProducts",
     [](const float* w, int64_t out, int64_t in) { return PackBf16Lines(w, out, in, false); }},
    {"Bf16OneDnn",
     [](const float* w, int64_t out, int64_t in) { return PackBf16OneDnn(w, out, in); }},
};

// Those whose kernels are ours, so that they can be held to an instruction set.
constexpr Backend kOwnBackends[] = {
    kInt8Backends[0],    kBf16Backends[0],      kBf16Backends[1],
    {"Int4", &PackInt4}, {"Q8_0", &PackAsQ8_0},
};

constexpr Backend kAllBackends[] = {kOwnBackends[0], kOwnBackends[1], kOwnBackends[2],
                                    kOwnBackends[3], kOwnBackends[4], kInt8Backends[1],
                                    kBf16Backends[2]};

const auto kBackendName = [](const auto& info) { return std::string(info.param.name); };

std::vector<float> Product(const MatmulBackend& matrix, const Size& size,
                           const std::vector<float>& x) {
  const auto rows = static_cast<int64_t>(x.size()) / size.in_features;
  std::vector<float> y(rows * size.out_features);
  matrix.Multiply(x.data(), rows, y.data());
  return y;
}

// Calls check(row, column, products' in_features exact sum and sum of magnitudes) of float64
// products of x and w, both [.., in_features].
template <typename Check>
void ForEachProduct(const Size& size, const std::vector<double>& x, const std::vector<double>& w,
                    Check check) {
  const auto rows = static_cast<int64_t>(x.size()) / size.in_features;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < size.out_features; ++column) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < size.in_features; ++k) {
        const double term = x[row * size.in_features + k] * w[column * size.in_features + k];
        sum += term;
        magnitude += std::abs(term);
      }
      check(row * size.out_features + column, sum, magnitude);
    }
  }
}

std::vector<double> Widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Numbers as integers times a scale for each `group` of a row of `stride`, the greatest ±127.
std::vector<double> Quantized(const std::vector<float>& x, int64_t stride, int64_t group) {
  std::vector<double> result(x.size());
  for (size_t row = 0; row < x.size(); row += stride) {
    for (int64_t begin = 0; begin < stride; begin += group) {
      const int64_t end = std::min(begin + group, stride);
      float greatest = 0;
      for (int64_t i = begin; i < end; ++i) greatest = std::max(greatest, std::abs(x[row + i]));
      for (int64_t i = begin; i < end && greatest > 0; ++i) {
        // Ties to even is the rounding mode.
        result[row + i] = std::nearbyint(x[row + i] * (127 / greatest)) * double{greatest / 127};
      }
    }
  }
  return result;
}

std::vector<double> RoundedToBf16(const std::vector<float>& x) {
  std::vector<double> result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    // 8 bits of a mantissa in [0.5, 1).
    int exponent;
    const double mantissa = std::frexp(double{x[i]}, &exponent);
    result[i] = std::ldexp(std::nearbyint(mantissa * 256), exponent - 8);
  }
  return result;
}

class Int8Test : public testing::TestWithParam<Backend> {};

// Only the scaling rounds: each of three steps by half a unit in the last place, at most.
TEST_P(Int8Test, IsTheProductOfTheIntegers) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size.out_features << " x " << size.in_features);
    const auto weights = RandomNormals(1, size.out_features * size.in_features);
    const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
    const auto w = Quantized(weights, size.in_features, size.in_features);
    for (const int64_t rows : {1, 2, 13, 130}) {
      const auto x = RandomNormals(rows, rows * size.in_features);
      const auto y = Product(*matrix, size, x);
      ForEachProduct(size, Quantized(x, size.in_features, size.in_features), w,
                     [&](int64_t i, double exact, double magnitude) {
                       ASSERT_NEAR(y[i], exact, 2e-7 * std::abs(exact) + 1e-14 * magnitude) << i;
                     });
    }
  }
}

// Each factor is off by at most half a step, which is 1/254 of the greatest of its row.
TEST_P(Int8Test, IsNearTheFloatProduct) {
  const Size size = {200, 512};
  const auto weights = RandomNormals(2, size.out_features * size.in_features);
  const auto x = RandomNormals(3, 40 * size.in_features);
  const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
  const auto y = Product(*matrix, size, x);
  const auto half_steps = [&](const std::vector<float>& values) {
    std::vector<double> steps(values.size() / size.in_features);
    for (size_t i = 0; i < values.size(); ++i) {
      double& step = steps[i / size.in_features];
      step = std::max(step, std::abs(double{values[i]}) / 254);
    }
    return steps;
  };
  const auto sums = [&](const std::vector<float>& values) {
    std::vector<double> totals(values.size() / size.in_features);
    for (size_t i = 0; i < values.size(); ++i) totals[i / size.in_features] += std::abs(values[i]);
    return totals;
  };
  const auto x_steps = half_steps(x);
  const auto w_steps = half_steps(weights);
  const auto x_sums = sums(x);
  const auto w_sums = sums(weights);
  double square_error = 0;
  double square = 0;
  ForEachProduct(size, Widened(x), Widened(weights), [&](int64_t i, double exact, double) {
    const int64_t row = i / size.out_features;
    const int64_t column = i % size.out_features;
    const double bound = x_steps[row] * w_sums[column] + w_steps[column] * x_sums[row] +
                         x_steps[row] * w_steps[column] * static_cast<double>(size.in_features);
    ASSERT_NEAR(y[i], exact, bound * 1.001);
    square_error += (y[i] - exact) * (y[i] - exact);
    square += exact * exact;
  });
  // Of 512 normals the greatest is about 3.2: both steps' errors together are 1.03 % of the product.
  EXPECT_LT(std::sqrt(square_error / square), 0.013);
}

// 127 · 127 · 2^16 is just below 2^30; with the offset of unsigned inputs sums come near 2^31.
TEST_P(Int8Test, LongSumsOfGreatestNumbersDoNotOverflow) {
  const Size size = {65, int64_t{1} << 16};
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> weights(size.out_features * size.in_features, sign);
    const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
    std::vector<float> x(2 * size.in_features, 0.5f);
    std::fill_n(x.begin(), size.in_features, -0.5f);
    const auto y = Product(*matrix, size, x);
    for (int64_t i = 0; i < 2 * size.out_features; ++i) {
      const float exact = (i < size.out_features ? -sign : sign) * 0x1p15f;
      ASSERT_NEAR(y[i], exact, 0x1p15f * 3e-7f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Int8Test, testing::ValuesIn(kInt8Backends), kBackendName);

class Bf16Test : public testing::TestWithParam<Backend> {};

TEST_P(Bf16Test, IsTheProductOfTheRoundedNumbers) {
  for (const Size& size : {Size{1, 1}, Size{65, 33}, Size{100, 77}, Size{40, 1100}}) {
    const auto weights = RandomNormals(4, size.out_features * size.in_features);
    const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
    if (matrix == nullptr) GTEST_SKIP() << "the backend declines here";
    for (const int64_t rows : {1, 2, 13, 130}) {
      const auto x = RandomNormals(rows, rows * size.in_features);
      const auto y = Product(*matrix, size, x);
      ForEachProduct(size, RoundedToBf16(x), RoundedToBf16(weights),
                     [&](int64_t i, double exact, double magnitude) {
                       ASSERT_NEAR(y[i], exact, 1e-6 * magnitude + 1e-30) << i;
                     });
      // Half a unit of 8 bits in each factor.
      ForEachProduct(size, Widened(x), Widened(weights),
                     [&](int64_t i, double exact, double magnitude) {
                       ASSERT_NEAR(y[i], exact, 0.0079 * magnitude) << i;
                     });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Bf16Test, testing::ValuesIn(kBf16Backends), kBackendName);

// The weights that a matrix multiplies by, asked of it one by one.
std::vector<double> HeldWeights(const MatmulBackend& matrix, const Size& size) {
  std::vector<float> unit(size.in_features * size.in_features);
  for (int64_t k = 0; k < size.in_features; ++k) unit[k * size.in_features + k] = 1;
  const auto y = Product(matrix, size, unit);
  std::vector<double> weights(y.size());
  for (int64_t k = 0; k < size.in_features; ++k) {
    for (int64_t column = 0; column < size.out_features; ++column) {
      weights[column * size.in_features + k] = y[k * size.out_features + column];
    }
  }
  return weights;
}

TEST(Int4Test, HoldsSixteenStepsForEach32Weights) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size.out_features << " x " << size.in_features);
    const auto weights = RandomNormals(5, size.out_features * size.in_features);
    const auto held =
        HeldWeights(*PackInt4(weights.data(), size.out_features, size.in_features), size);
    double square_error = 0;
    double square = 0;
    for (int64_t begin = 0; begin < static_cast<int64_t>(held.size());) {
      const int64_t row_end = (begin / size.in_features + 1) * size.in_features;
      const int64_t end = std::min(begin + 32, row_end);
      double greatest = 0;
      for (int64_t i = begin; i < end; ++i) {
        greatest = std::max(greatest, std::abs(double{weights[i]}));
      }
      std::vector<double> levels(held.begin() + begin, held.begin() + end);
      std::ranges::sort(levels);
      const auto same = [](double a, double b) { return b - a <= 1e-5 * std::abs(a); };
      levels.erase(std::unique(levels.begin(), levels.end(), same), levels.end());
      EXPECT_LE(levels.size(), 16);
      for (int64_t i = begin; i < end; ++i) {
        // A side may reach no further than 7 steps of 8.5.
        ASSERT_NEAR(held[i], weights[i], greatest * 1.5 / 8.5 + 1e-6) << i;
        square_error += (held[i] - weights[i]) * (held[i] - weights[i]);
        square += double{weights[i]} * weights[i];
      }
      begin = end;
    }
    // Steps of about a seventh of the greatest of 32 normals, which is 2.1 on average.
    EXPECT_LT(std::sqrt(square_error / square), 0.1);
  }
}

TEST(Int4Test, IsTheProductOfTheIntegers) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size.out_features << " x " << size.in_features);
    const auto weights = RandomNormals(6, size.out_features * size.in_features);
    const auto matrix = PackInt4(weights.data(), size.out_features, size.in_features);
    const auto held = HeldWeights(*matrix, size);
    for (const int64_t rows : {1, 2, 13, 130}) {
      const auto x = RandomNormals(rows, rows * size.in_features);
      const auto y = Product(*matrix, size, x);
      ForEachProduct(size, Quantized(x, size.in_features, 32), held,
                     [&](int64_t i, double exact, double magnitude) {
                       ASSERT_NEAR(y[i], exact, 1e-6 * magnitude) << i;
                     });
    }
  }
}

class BlocksTest : public testing::TestWithParam<BlockType> {};

TEST_P(BlocksTest, AreMultipliedAsTheyStand) {
  for (const Size& size : {Size{1, 32}, Size{65, 64}, Size{100, 96}, Size{200, 512}}) {
    SCOPED_TRACE(testing::Message() << size.out_features << " x " << size.in_features);
    const auto stored = RandomBlocks(GetParam(), size.out_features, size.in_features, 7);
    const auto matrix =
        PackedMatrix::FromBlocks(stored.blocks(), size.out_features, size.in_features);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(matrix->type(),
              GetParam() == BlockType::kQ8_0 ? WeightType::kInt8 : WeightType::kInt4);
    std::vector<double> weights(stored.quants.size());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = stored.value(static_cast<int64_t>(i));
    for (const int64_t rows : {1, 2, 3, 6, 13, 130}) {
      const auto x = RandomNormals(rows, rows * size.in_features);
      std::vector<float> y(rows * size.out_features);
      matrix->Multiply(x.data(), rows, y.data());
      ForEachProduct(size, Quantized(x, size.in_features, 32), weights,
                     [&](int64_t i, double exact, double magnitude) {
                       ASSERT_NEAR(y[i], exact, 1e-6 * magnitude) << i;
                     });
    }
  }
}

TEST_P(BlocksTest, BytesThatAreNoMatrixAreErrors) {
  auto stored = RandomBlocks(GetParam(), 4, 64, 8);
  EXPECT_EQ(PackedMatrix::FromBlocks(stored.blocks(), 5, 64).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PackedMatrix::FromBlocks(stored.blocks(), 8, 33).status().code(),
            absl::StatusCode::kInvalidArgument);
  stored.bytes[stored.bytes.size() / 2] = std::byte{0};
  stored.bytes[stored.bytes.size() / 2 + 1] = std::byte{0x7c};  // Infinity.
  EXPECT_EQ(PackedMatrix::FromBlocks(stored.blocks(), 4, 64).status().code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Types, BlocksTest, testing::Values(BlockType::kQ8_0, BlockType::kQ4_0));

class NarrowTest : public testing::TestWithParam<Backend> {};

TEST_P(NarrowTest, RowsThatAreNoNumbersStayAlone) {
  const Size size = {65, 96};
  const auto weights = RandomNormals(9, size.out_features * size.in_features);
  const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
  if (matrix == nullptr) GTEST_SKIP() << "the backend declines here";
  const auto good = RandomNormals(10, 5 * size.in_features);
  const auto expected = Product(*matrix, size, good);
  for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    auto x = good;
    x[1 * size.in_features + 70] = bad;
    x[3 * size.in_features] = bad;
    std::fill_n(x.begin() + 4 * size.in_features, size.in_features, 0.0f);
    const auto y = Product(*matrix, size, x);
    for (int64_t i = 0; i < 5 * size.out_features; ++i) {
      const int64_t row = i / size.out_features;
      if (row == 4) {
        EXPECT_EQ(y[i], 0);
      } else if (row % 2 == 1) {
        EXPECT_FALSE(std::isfinite(y[i])) << row;
      } else {
        EXPECT_EQ(y[i], expected[i]) << row;
      }
    }
  }
}

// Nothing but exponents changes when all is scaled by powers of two.
TEST_P(NarrowTest, HugeAndTinyNumbersKeepTheirBits) {
  const Size size = {65, 96};
  const auto weights = RandomNormals(11, size.out_features * size.in_features);
  const auto x = RandomNormals(12, 7 * size.in_features);
  const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
  if (matrix == nullptr) GTEST_SKIP() << "the backend declines here";
  const auto expected = Product(*matrix, size, x);
  const auto scaled = [](std::vector<float> values, int exponent) {
    for (float& value : values) value = std::ldexp(value, exponent);
    return values;
  };
  const bool stored = std::strcmp(GetParam().name, "Q8_0") == 0;  // Its scales are binary16.
  for (const auto& [w_exponent, x_exponent] :
       {std::pair(0, 100), {0, -60}, {60, 40}, {60, -60}, {-60, 60}, {-60, -20}, {100, -80}}) {
    if (stored && w_exponent != 0) continue;
    const auto scaled_weights = scaled(weights, w_exponent);
    const auto other = GetParam().pack(scaled_weights.data(), size.out_features, size.in_features);
    EXPECT_EQ(Product(*other, size, scaled(x, x_exponent)),
              scaled(expected, w_exponent + x_exponent))
        << w_exponent << " " << x_exponent;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, NarrowTest, testing::ValuesIn(kAllBackends), kBackendName);

class InstructionSetTest : public testing::TestWithParam<Backend> {};

// Integer sums are exact everywhere; float ones have one order, and round once or twice a step.
TEST_P(InstructionSetTest, AllAgree) {
  const bool is_exact = std::strncmp(GetParam().name, "Int8", 4) == 0;
  for (const Size& size : kSizes) {
    const auto weights = RandomNormals(13, size.out_features * size.in_features);
    for (const int64_t rows : {1, 2, 5, 29}) {
      const auto x = RandomNormals(14, rows * size.in_features);
      std::vector<float> first;
      ForEachTarget([&](const char* target) {
        const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
        if (matrix == nullptr) return;
        const auto y = Product(*matrix, size, x);
        if (first.empty()) first = y;
        if (is_exact || HasFusedMultiplyAdd(target)) {
          EXPECT_EQ(y, first) << target << ", " << rows << " rows";
        } else {
          const float tolerance = 1e-5f * std::sqrt(static_cast<float>(size.in_features));
          EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(tolerance), first)) << target;
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, InstructionSetTest, testing::ValuesIn(kOwnBackends),
                         kBackendName);

}  // namespace
}  // namespace fermata
