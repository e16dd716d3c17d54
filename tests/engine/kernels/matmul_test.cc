#include "engine/kernels/matmul.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/stored_blocks.h"
#include "tests/engine/kernels/targets.h"

namespace fermata {
namespace {

struct Size {
  int64_t out_features;
  int64_t in_features;
};

constexpr Size kSizes[] = {{1, 1},    {3, 5},    {17, 33},   {32, 64},   {33, 1},    {1, 300},
                           {100, 77}, {100, 96}, {192, 512}, {512, 192}, {130, 1100}};

std::vector<float> Normals(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

using Pack = std::unique_ptr<MatmulBackend> (*)(const float*, int64_t, int64_t);

struct Backend {
  const char* name;
  Pack pack;  // May decline, with null.
};

constexpr Backend kFloatBackends[] = {{"Panels", &PackPanels}, {"OneDnn", &PackOneDnn}};

// Every kernel of every type, also where another would be chosen.
constexpr Backend kBackends[] = {
    kFloatBackends[0],
    kFloatBackends[1],
    {"Bf16Lines",
     [](const float* w, int64_t out, int64_t in) { return PackBf16Lines(w, out, in); }},
    {"Bf16LinesWithoutDotProducts",
     [](const float* w, int64_t out, int64_t in) { return PackBf16Lines(w, out, in, false); }},
    {"Bf16OneDnn",
     [](const float* w, int64_t out, int64_t in) { return PackBf16OneDnn(w, out, in); }},
    {"Int8Lines",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kAllRows); }},
    {"Int8OneDnn",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kNoRows); }},
    {"Int8Both", [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, 20); }},
    {"Int4", &PackInt4},
    {"Q8_0", &PackAsQ8_0},
};

class MatmulBackendTest : public testing::TestWithParam<Backend> {
 protected:
  ~MatmulBackendTest() override { SetComputeThreads(threads_); }

  std::vector<float> Multiply(const MatmulBackend& matrix, const Size& size,
                              const std::vector<float>& x) {
    const int64_t rows = static_cast<int64_t>(x.size()) / size.in_features;
    std::vector<float> y(rows * size.out_features + 1, kGuard);
    matrix.Multiply(x.data(), rows, y.data());
    EXPECT_EQ(y.back(), kGuard) << "wrote past the end";
    y.pop_back();
    return y;
  }

  // Calls `body` for each size that the backend takes.
  void ForEachSize(const std::function<void(const Size&, const MatmulBackend&)>& body) {
    for (const Size& size : kSizes) {
      SCOPED_TRACE(testing::Message() << size.out_features << " x " << size.in_features);
      weights_ = Normals(size.out_features * size.in_features, 1);
      const auto matrix = GetParam().pack(weights_.data(), size.out_features, size.in_features);
      if (matrix != nullptr) body(size, *matrix);
    }
  }

  static constexpr float kGuard = 12345.0f;
  const int threads_ = ComputeThreads();
  std::vector<float> weights_;
};

class MatmulFloatTest : public MatmulBackendTest {};

TEST_P(MatmulFloatTest, MatchesFloat64) {
  ForEachSize([&](const Size& size, const MatmulBackend& matrix) {
    for (const int64_t rows : {1, 2, 7, 64, 300}) {
      const auto x = Normals(rows * size.in_features, 2);
      const auto y = Multiply(matrix, size, x);
      for (int64_t i = 0; i < rows * size.out_features; ++i) {
        double exact = 0;
        double magnitude = 0;
        for (int64_t k = 0; k < size.in_features; ++k) {
          const double term = double{x[i / size.out_features * size.in_features + k]} *
                              weights_[i % size.out_features * size.in_features + k];
          exact += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(y[i], exact, 1e-6 * magnitude + 1e-30) << rows << " rows, element " << i;
      }
    }
  });
}

// The promise that batching rests on.
TEST_P(MatmulBackendTest, RowsDoNotDependOnTheirNumber) {
  constexpr int64_t kMostRows = 300;
  ForEachSize([&](const Size& size, const MatmulBackend& matrix) {
    const auto x = Normals(kMostRows * size.in_features, 3);
    std::vector<float> alone(kMostRows * size.out_features);
    for (int64_t row = 0; row < kMostRows; ++row) {
      matrix.Multiply(&x[row * size.in_features], 1, &alone[row * size.out_features]);
    }
    // Every number of rows for one odd size, some for the others.
    const int64_t step = size.out_features == 100 ? 1 : 23;
    for (int64_t rows = 1; rows <= kMostRows; rows += step) {
      // The last `rows` rows: each row is met at many places of a batch.
      const int64_t first = kMostRows - rows;
      const auto y = Multiply(matrix, size, {x.begin() + first * size.in_features, x.end()});
      ASSERT_EQ(std::memcmp(y.data(), &alone[first * size.out_features], y.size() * 4), 0)
          << rows << " rows";
    }
  });
}

TEST_P(MatmulBackendTest, BitsDoNotDependOnThreads) {
  ForEachSize([&](const Size& size, const MatmulBackend&) {
    const auto x = Normals(200 * size.in_features, 4);
    SetComputeThreads(1, 1);
    const auto one = GetParam().pack(weights_.data(), size.out_features, size.in_features);
    const auto expected = Multiply(*one, size, x);
    for (const int threads : {2, 3, 4}) {
      SetComputeThreads(threads, 1);
      const auto several = GetParam().pack(weights_.data(), size.out_features, size.in_features);
      EXPECT_EQ(Multiply(*several, size, x), expected) << threads;
    }
  });
}

TEST_P(MatmulBackendTest, CallersOnSeveralThreadsAgree) {
  const Size size = {192, 512};
  const auto weights = Normals(size.out_features * size.in_features, 5);
  const auto matrix = GetParam().pack(weights.data(), size.out_features, size.in_features);
  if (matrix == nullptr) GTEST_SKIP() << "the backend declines here";
  constexpr int64_t kRows = 40;
  const auto x = Normals(kRows * size.in_features, 6);
  const auto expected = Multiply(*matrix, size, x);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int64_t rows = caller + 1; rows <= kRows; rows += 2) {
        std::vector<float> y(rows * size.out_features);
        matrix->Multiply(x.data(), rows, y.data());
        EXPECT_TRUE(std::equal(y.begin(), y.end(), expected.begin())) << rows;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

const auto kBackendName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Backends, MatmulBackendTest, testing::ValuesIn(kBackends), kBackendName);
INSTANTIATE_TEST_SUITE_P(Backends, MatmulFloatTest, testing::ValuesIn(kFloatBackends),
                         kBackendName);

// The layout of panels and the order of sums are the same for all; only the width differs.
TEST(PanelsTest, InstructionSetsAgree) {
  for (const Size& size : kSizes) {
    constexpr int64_t kRows = 29;
    const auto weights = Normals(size.out_features * size.in_features, 7);
    const auto x = Normals(kRows * size.in_features, 8);
    const auto matrix = PackPanels(weights.data(), size.out_features, size.in_features);
    std::vector<float> first;
    ForEachTarget([&](const char* target) {
      std::vector<float> y(kRows * size.out_features);
      matrix->Multiply(x.data(), kRows, y.data());
      if (first.empty()) first = y;
      if (HasFusedMultiplyAdd(target)) {
        EXPECT_EQ(y, first) << target;
      } else {
        const float tolerance = 1e-4f * std::sqrt(static_cast<float>(size.in_features));
        EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(tolerance), first)) << target;
      }
    });
  }
}

class FixedWeights : public WeightSource {
 public:
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    if (name != "layer.weight") return absl::NotFoundError(std::string(name));
    EXPECT_THAT(shape, testing::ElementsAre(2, 3));
    AlignedBuffer<float> values(6);
    for (int i = 0; i < 6; ++i) values[i] = static_cast<float>(i + 1);
    return values;
  }
  bool Has(std::string_view name) const override { return name == "layer.weight"; }
};

TEST(PackedMatrixTest, ReadsAndMultiplies) {
  FixedWeights source;
  const auto matrix = ReadMatrix(WeightScope(source, "layer."), "weight", 2, 3);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->out_features(), 2);
  EXPECT_EQ(matrix->in_features(), 3);
  EXPECT_GE(matrix->bytes(), 24);
  const float x[] = {1, 10, 100, 0, 1, 0};
  float y[4];
  matrix->Multiply(x, 2, y);
  EXPECT_THAT(y, testing::ElementsAre(321, 654, 2, 5));
  EXPECT_EQ(ReadMatrix(WeightScope(source, "other."), "weight", 2, 3).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PackedMatrixTest, NoRowsAndNoMatrixAreNoWork) {
  const float weights[] = {1};
  float y = 7;
  PackedMatrix(weights, 1, 1).Multiply(nullptr, 0, &y);
  PackedMatrix().Multiply(nullptr, 1, &y);
  EXPECT_EQ(y, 7);
  EXPECT_EQ(PackedMatrix().out_features(), 0);
}

}  // namespace
}  // namespace fermata
