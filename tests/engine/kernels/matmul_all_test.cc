// Several products at once, and what is done with their rows while they are at hand.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kIn = 192;
constexpr int64_t kRows[] = {1, 2, 7, 96, 97, 300};

PackedMatrix RandomMatrix(int seed, int64_t out, int64_t in, WeightType type) {
  const auto weights = RandomNormals(seed, out * in);
  return PackedMatrix(weights.data(), out, in, type);
}

std::vector<float> Alone(const PackedMatrix& matrix, const std::vector<float>& x, int64_t rows) {
  std::vector<float> y(rows * matrix.out_features());
  matrix.Multiply(x.data(), rows, y.data());
  return y;
}

class MultiplyAllTest : public testing::Test {
 protected:
  ~MultiplyAllTest() override { SetComputeThreads(threads_); }
  const int threads_ = ComputeThreads();
};

// Matrices of every type, width and length, of which some share an x.
TEST_F(MultiplyAllTest, GivesTheBitsOfEachAlone) {
  std::vector<PackedMatrix> matrices;
  for (const auto& [type, name] : kWeightTypeNames) {
    for (const int64_t out : {200, 200, 512, 3}) {
      const auto seed = static_cast<int>(matrices.size());
      matrices.push_back(RandomMatrix(seed, out, kIn + 64 * (out == 512), type));
    }
  }
  matrices.emplace_back();
  for (const int64_t rows : kRows) {
    const auto shared = RandomNormals(100, rows * (kIn + 64));
    const auto other = RandomNormals(101, rows * (kIn + 64));
    for (const int threads : {1, 2, 4}) {
      SetComputeThreads(threads, 1);
      std::vector<std::vector<float>> results;
      std::vector<Product> products;
      results.reserve(matrices.size());
      for (size_t i = 0; i < matrices.size(); ++i) {
        results.emplace_back(rows * matrices[i].out_features());
        products.push_back({.matrix = &matrices[i],
                            .x = (i % 3 == 2 ? other : shared).data(),
                            .y = results[i].data()});
      }
      MultiplyAll(products, rows);
      for (size_t i = 0; i < matrices.size(); ++i) {
        EXPECT_EQ(results[i], Alone(matrices[i], i % 3 == 2 ? other : shared, rows))
            << "matrix " << i << ", " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

TEST_F(MultiplyAllTest, FinishesEachNumberOnce) {
  for (const auto& [type, name] : kWeightTypeNames) {
    for (const int64_t out : {70, 320}) {
      const PackedMatrix matrix = RandomMatrix(1, out, kIn, type);
      const auto bias = RandomNormals(2, out);
      for (const int64_t rows : kRows) {
        SCOPED_TRACE(testing::Message() << name << ", " << out << " x " << rows);
        const auto x = RandomNormals(3, rows * kIn);
        const auto residual = RandomNormals(4, rows * out);
        auto expected = Alone(matrix, x, rows);
        for (int64_t i = 0; i < rows * out; ++i) expected[i] = expected[i] + bias[i % out];
        Tanh(expected.data(), expected.data(), rows * out);
        Add(residual.data(), expected.data(), rows * out);
        for (const int threads : {1, 2, 4}) {
          SetComputeThreads(threads, 1);
          std::vector<float> y(rows * out);
          const Finish finish = [&](int64_t row, int64_t column, float* piece, int64_t count) {
            EXPECT_EQ(piece, &y[row * out + column]);
            Add(&bias[column], piece, count);
            Tanh(piece, piece, count);
            Add(&residual[row * out + column], piece, count);
          };
          matrix.Multiply(x.data(), rows, y.data(), finish);
          EXPECT_EQ(y, expected) << threads << " threads";
        }
      }
    }
  }
}

// The middle of a SwiGLU layer. The types differ, and with them the widths that kernels like best.
TEST_F(MultiplyAllTest, NeighboursAdvanceTogether) {
  constexpr int64_t kOut = 450;
  for (const auto& [gate_type, gate_name] : kWeightTypeNames) {
    for (const auto& [up_type, up_name] : kWeightTypeNames) {
      const PackedMatrix before = RandomMatrix(5, 130, kIn, gate_type);
      const PackedMatrix gate = RandomMatrix(6, kOut, kIn, gate_type);
      const PackedMatrix up = RandomMatrix(7, kOut, kIn, up_type);
      for (const int64_t rows : kRows) {
        const auto x = RandomNormals(8, rows * kIn);
        const auto gates = Alone(gate, x, rows);
        auto expected = Alone(up, x, rows);
        SiluMultiply(gates.data(), expected.data(), expected.data(), rows * kOut);
        for (const int threads : {1, 2, 3, 4}) {
          SetComputeThreads(threads, 1);
          std::vector<float> first(rows * 130);
          std::vector<float> gate_y(rows * kOut);
          std::vector<float> y(rows * kOut);
          const Product products[] = {
              {.matrix = &before, .x = x.data(), .y = first.data()},
              {.matrix = &gate, .x = x.data(), .y = gate_y.data()},
              {.matrix = &up,
               .x = x.data(),
               .y = y.data(),
               .finish = [&](int64_t row, int64_t column, float* piece, int64_t count) {
                 SiluMultiply(&gate_y[row * kOut + column], piece, piece, count);
               }}};
          MultiplyAll(products, rows);
          ASSERT_EQ(y, expected) << gate_name << ", " << up_name << ", " << rows << " rows, "
                                 << threads << " threads";
        }
      }
    }
  }
}

TEST_F(MultiplyAllTest, NothingIsNoWork) {
  MultiplyAll(std::span<const Product>(), 5);
  const PackedMatrix matrix = RandomMatrix(9, 3, 5, WeightType::kF32);
  const Product product = {.matrix = &matrix,
                           .finish = [](int64_t, int64_t, float*, int64_t) { FAIL(); }};
  MultiplyAll({&product, 1}, 0);
}

}  // namespace
}  // namespace fermata
