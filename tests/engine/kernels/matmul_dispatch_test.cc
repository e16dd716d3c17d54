// Who multiplies: the table, and what its thresholds must not change.

#include "engine/kernels/matmul_dispatch.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/matmul_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using Way = MatmulBackend::Way;

TEST(MatmulDispatchTest, TheTableHasEachTypeAndClassOnce) {
  size_t i = 0;
  for (const auto& [type, type_name] : kWeightTypeNames) {
    for (const auto& [processor, name] : kProcessorClassNames) {
      SCOPED_TRACE(testing::Message() << type_name << ", " << name);
      ASSERT_LT(i, DispatchTable().size());
      const DispatchRow& row = DispatchTable()[i++];
      EXPECT_EQ(row.type, type);
      EXPECT_EQ(row.processor, processor);
      EXPECT_GE(row.own_rows, 0);
      if (processor == ThisProcessorClass()) {
        EXPECT_EQ(OwnRows(type), row.own_rows);
      }
    }
  }
  EXPECT_EQ(i, DispatchTable().size());
}

// Where the library would give other bits, the number of rows may not decide.
TEST(MatmulDispatchTest, OnlyExactSumsHaveThresholds) {
  for (const DispatchRow& row : DispatchTable()) {
    if (row.type == WeightType::kInt8) continue;
    EXPECT_TRUE(row.own_rows == kAllRows ||
                (row.own_rows == kNoRows && row.type != WeightType::kInt4))
        << WeightTypeName(row.type) << ": " << row.own_rows;
  }
}

TEST(MatmulDispatchTest, TheClassIsWhatTheLibraryMayUse) {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa == nullptr) GTEST_SKIP() << "ONEDNN_MAX_CPU_ISA is not set";
  const std::string_view most = isa;
  if (most == "AVX2") {
    EXPECT_EQ(ThisProcessorClass(), ProcessorClass::kAvx2);
  }
  if (most == "AVX512_CORE") {
    EXPECT_LE(ThisProcessorClass(), ProcessorClass::kAvx512);
  }
  if (most == "AVX512_CORE_BF16") {
    EXPECT_LE(ThisProcessorClass(), ProcessorClass::kVnni);
  }
  const int64_t better_than_class = hwy::SupportedTargets() & ~TargetsOfClass();
  EXPECT_EQ(better_than_class, 0);
}

class MatmulThresholdTest : public testing::TestWithParam<int64_t> {
 protected:
  ~MatmulThresholdTest() override { SetComputeThreads(threads_); }
  const int threads_ = ComputeThreads();
};

// Thresholds of every class are tried on each processor that can count exactly both ways.
std::vector<int64_t> Thresholds() {
  std::set<int64_t> thresholds = {kNoRows, 1, 20, kAllRows};
  for (const DispatchRow& row : DispatchTable()) thresholds.insert(row.own_rows);
  return {thresholds.begin(), thresholds.end()};
}

TEST_P(MatmulThresholdTest, BothSidesGiveTheSameBits) {
  constexpr int64_t kOut = 200;
  constexpr int64_t kIn = 300;
  const auto weights = RandomNormals(1, kOut * kIn);
  const auto matrix = PackInt8(weights.data(), kOut, kIn, GetParam());
  const auto library = PackInt8(weights.data(), kOut, kIn, kNoRows);
  const bool has_library = library->WayFor(1) != Way::kPieces;
  const int64_t last = std::min<int64_t>(GetParam(), kMostRowsAtOnce);
  if (last > 0) {
    EXPECT_EQ(matrix->WayFor(last), Way::kPieces);
  }
  if (last < kMostRowsAtOnce) {
    EXPECT_EQ(matrix->WayFor(last + 1), has_library ? Way::kWholeThenPieces : Way::kPieces);
  }
  const auto x = RandomNormals(2, (last + 2) * kIn);
  std::vector<float> alone((last + 2) * kOut);
  for (int64_t row = 0; row < last + 2; ++row) {
    matrix->Multiply(&x[row * kIn], 1, &alone[row * kOut]);
  }
  for (const int threads : {1, 2, 4}) {
    SetComputeThreads(threads, 1);
    for (int64_t rows = std::max<int64_t>(last - 1, 1); rows <= last + 2; ++rows) {
      std::vector<float> y(rows * kOut);
      matrix->Multiply(x.data(), rows, y.data());
      EXPECT_TRUE(std::equal(y.begin(), y.end(), alone.begin())) << rows << ", " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, MatmulThresholdTest, testing::ValuesIn(Thresholds()));

// What each type may be off by, for normal numbers and sums of 256 (a norm of 16): that of its steps,
// as the tests of the types say, to five standard deviations.
double Tolerance(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 1e-4;
    case WeightType::kBf16:
      return 0.2;
    case WeightType::kInt8:
      return 0.8;
    case WeightType::kInt4:
      return 8;
  }
  return 0;
}

// What the table chooses here, at every number of rows up to 130 and at any place in memory.
TEST(MatmulDispatchTest, ChosenKernelsKeepTheirPromises) {
  constexpr int64_t kOut = 200;
  constexpr int64_t kIn = 256;
  constexpr int64_t kMostRows = 130;
  const auto weights = RandomNormals(3, kOut * kIn);
  std::vector<float> x(kMostRows * kIn + 16);
  const auto numbers = RandomNormals(4, kMostRows * kIn);
  std::vector<double> exact(kMostRows * kOut);
  for (int64_t i = 0; i < kMostRows * kOut; ++i) {
    for (int64_t k = 0; k < kIn; ++k) {
      exact[i] += double{numbers[i / kOut * kIn + k]} * weights[i % kOut * kIn + k];
    }
  }
  std::vector<float> y(kMostRows * kOut + 16);
  for (const auto& [type, name] : kWeightTypeNames) {
    SCOPED_TRACE(name);
    const PackedMatrix matrix(weights.data(), kOut, kIn, type);
    ASSERT_EQ(matrix.type(), type);
    std::vector<float> all(kMostRows * kOut);
    matrix.Multiply(numbers.data(), kMostRows, all.data());
    for (int64_t i = 0; i < kMostRows * kOut; ++i) {
      ASSERT_NEAR(all[i], exact[i], Tolerance(type)) << i;
    }
    for (int64_t rows = 1; rows <= kMostRows; ++rows) {
      float* const shifted_x = x.data() + rows % 16;
      float* const shifted_y = y.data() + rows / 3 % 16;
      std::ranges::copy(numbers, shifted_x);
      matrix.Multiply(shifted_x, rows, shifted_y);
      ASSERT_TRUE(std::equal(shifted_y, shifted_y + rows * kOut, all.begin())) << rows;
    }
  }
}

}  // namespace
}  // namespace fermata
