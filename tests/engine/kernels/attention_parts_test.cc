// The smaller kernels under the mixers: block product, convolution, rotary embedding and online
// softmax.

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/kernels/block_product.h"
#include "engine/kernels/convolution.h"
#include "engine/kernels/norm.h"
#include "engine/kernels/rotary.h"
#include "engine/kernels/softmax_attention.h"
#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

TEST(BlockProductTest, MatchesFloat64AndStaysInItsBlock) {
  constexpr int64_t kStride = 40;
  for (const int64_t rows : {1, 3, 4, 9}) {
    for (const int64_t inner : {0, 1, 17}) {
      for (const int64_t columns : {1, 5, 16, 39}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << inner << " x " << columns);
        const auto a = RandomNormals(1, rows * kStride);
        const auto b = RandomNormals(2, inner * kStride);
        const auto before = RandomNormals(3, rows * kStride);
        auto c = before;
        MultiplyAccumulate({.a = a.data(),
                            .a_stride = kStride,
                            .b = b.data(),
                            .b_stride = kStride,
                            .c = c.data(),
                            .c_stride = kStride,
                            .rows = rows,
                            .inner = inner,
                            .columns = columns});
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < kStride; ++column) {
            const int64_t at = row * kStride + column;
            double expected = before[at];
            for (int64_t i = 0; i < inner && column < columns; ++i) {
              expected += double{a[row * kStride + i]} * b[i * kStride + column];
            }
            ASSERT_NEAR(c[at], expected, 1e-5) << row << ", " << column;
          }
        }
      }
    }
  }
}

TEST(ConvolutionTest, MatchesTheFormulaInAnyPieces) {
  constexpr int64_t kCount = 9;
  for (const int64_t taps : {1, 2, 4, 12}) {
    for (const int64_t dim : {1, 7, 33}) {
      SCOPED_TRACE(testing::Message() << taps << " taps, " << dim << " wide");
      const auto weight = RandomNormals(1, taps * dim);
      const auto x = RandomNormals(2, kCount * dim);
      const CausalConvolution convolution{.weight = weight.data(), .taps = taps, .dim = dim};
      std::vector<float> state((taps - 1) * dim), out(kCount * dim);
      Convolve(convolution, x.data(), kCount, state.data(), out.data());
      for (int64_t t = 0; t < kCount; ++t) {
        for (int64_t c = 0; c < dim; ++c) {
          double expected = 0;
          for (int64_t j = 0; j < taps; ++j) {
            const int64_t source = t - (taps - 1) + j;
            if (source >= 0) expected += double{weight[j * dim + c]} * x[source * dim + c];
          }
          ASSERT_NEAR(out[t * dim + c], expected, 1e-5);
        }
      }
      std::vector<float> state2((taps - 1) * dim), out2(kCount * dim);
      for (const auto& [begin, end] : {std::pair(0, 1), {1, 3}, {3, 8}, {8, 9}}) {
        Convolve(convolution, x.data() + begin * dim, end - begin, state2.data(),
                 out2.data() + begin * dim);
      }
      EXPECT_EQ(out2, out);
      EXPECT_EQ(state2, state);
    }
  }
}

TEST(RotaryTest, TurnsPairsByTheirAngles) {
  const Rotary rotary(4, 100.0);  // Frequencies 1 and 100^(-1/2) = 0.1.
  std::vector<float> x = {1, 1, 0, 0, 0, 0, 2, 2};
  rotary.Rotate(3, 2, x.data());
  const double expected[] = {std::cos(3.0),     std::cos(0.3),      std::sin(3.0),
                             std::sin(0.3),     -2 * std::sin(3.0), -2 * std::sin(0.3),
                             2 * std::cos(3.0), 2 * std::cos(0.3)};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(x[i], expected[i], 1e-6) << i;
}

TEST(RotaryTest, ProductsDependOnTheDistanceAlone) {
  constexpr int64_t kDim = 32;
  const Rotary rotary(kDim, 10000.0);
  const auto q = RandomNormals(1, kDim), k = RandomNormals(2, kDim);
  const auto product = [&](int64_t position_q, int64_t position_k) {
    auto turned_q = q, turned_k = k;
    rotary.Rotate(position_q, 1, turned_q.data());
    rotary.Rotate(position_k, 1, turned_k.data());
    return Dot(turned_q.data(), turned_k.data(), kDim);
  };
  EXPECT_NEAR(product(0, 0), Dot(q.data(), k.data(), kDim), 1e-5);
  for (const int64_t shift : {1, 100, 1'000'000}) {
    EXPECT_NEAR(product(7 + shift, 2 + shift), product(7, 2), 1e-5) << shift;
  }
  EXPECT_GT(std::abs(product(7, 3) - product(7, 2)), 1e-3);
}

TEST(OnlineSoftmaxTest, MatchesSoftmaxInAnyBlocks) {
  constexpr int64_t kStride = 50, kCount = 150;
  for (const int64_t dim : {1, 6, 24, 33}) {
    for (const int64_t block : {int64_t{1}, int64_t{13}, kAttentionBlock}) {
      SCOPED_TRACE(testing::Message() << dim << " wide, blocks of " << block);
      // Scores grow to about 300: without a maximum they would overflow.
      auto q = RandomNormals(1, dim);
      for (float& value : q) value *= 30;
      const auto keys = RandomNormals(2, kCount * kStride);
      const auto values = RandomNormals(3, kCount * kStride);
      std::vector<float> o(dim, NAN);
      OnlineSoftmax attention{.q = q.data(), .o = o.data(), .dim = dim};
      for (int64_t s = 0; s < kCount; s += block) {
        AttendBlock({.keys = keys.data() + s * kStride,
                     .values = values.data() + s * kStride,
                     .stride = kStride,
                     .count = std::min(block, kCount - s)},
                    attention);
      }
      FinishAttention(attention);

      std::vector<double> scores(kCount);
      for (int64_t s = 0; s < kCount; ++s) {
        for (int64_t i = 0; i < dim; ++i) scores[s] += double{q[i]} * keys[s * kStride + i];
      }
      const double maximum = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - maximum);
      for (int64_t i = 0; i < dim; ++i) {
        double expected = 0;
        for (int64_t s = 0; s < kCount; ++s) expected += scores[s] * values[s * kStride + i];
        EXPECT_NEAR(o[i], expected / sum, 2e-4);
      }
    }
  }
}

}  // namespace
}  // namespace fermata
