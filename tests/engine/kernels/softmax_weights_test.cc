#include "engine/kernels/softmax_weights.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/kernels/targets.h"

namespace fermata {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Logits(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 20);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

struct Weights {
  std::vector<double> weights;
  std::vector<double> sums;
};

Weights WeightsOf(const std::vector<float>& logits, double largest, double temperature) {
  const auto count = static_cast<int64_t>(logits.size());
  Weights result;
  result.weights.resize(VocabularyBlocks(count) * kVocabularyBlock, -1);
  result.sums.resize(VocabularyBlocks(count), -1);
  SoftmaxWeights(logits.data(), count, largest, temperature, result.weights.data(),
                 result.sums.data());
  return result;
}

TEST(SoftmaxWeightsTest, MaximaOfEveryLengthAndAlignment) {
  ForEachTarget([](const char* target) {
    for (int64_t count = 1; count <= 200; ++count) {
      const auto all = Logits(count + 3, static_cast<uint32_t>(count));
      for (int64_t skip = 0; skip < 3; ++skip) {
        std::vector<float> maxima(VocabularyBlocks(count), 7);
        BlockMaxima(all.data() + skip, count, maxima.data());
        for (int64_t b = 0; b < VocabularyBlocks(count); ++b) {
          float expected = -kInf;
          for (int64_t i = 64 * b; i < std::min(count, 64 * (b + 1)); ++i) {
            expected = std::max(expected, all[skip + i]);
          }
          ASSERT_EQ(maxima[b], expected) << target << " " << count << " " << b;
        }
      }
    }
  });
}

TEST(SoftmaxWeightsTest, MaximaOfWhatIsNoNumber) {
  ForEachTarget([](const char* target) {
    std::vector<float> logits(64 * 4, -3);
    for (int i = 0; i < 64; ++i) logits[i] = i % 2 == 0 ? kNan : -kInf;
    logits[64 + 7] = kNan;
    logits[128 + 9] = kInf;
    logits[192] = kNan;
    logits[255] = 4;
    float maxima[4];
    BlockMaxima(logits.data(), 256, maxima);
    EXPECT_EQ(maxima[0], -kInf) << target;
    EXPECT_EQ(maxima[1], -3) << target;
    EXPECT_EQ(maxima[2], std::numeric_limits<float>::max()) << target;
    EXPECT_EQ(maxima[3], 4) << target;
  });
}

TEST(SoftmaxWeightsTest, PlacesOfWhatReachesTheBound) {
  ForEachTarget([](const char* target) {
    for (int64_t count = 1; count <= 64; ++count) {
      auto logits = Logits(count, static_cast<uint32_t>(count));
      if (count > 5) logits[5] = kNan;
      if (count > 9) logits[9] = kInf;
      for (const float least : {-kInf, -15.0f, logits[count / 2], 20.0f, kInf}) {
        std::vector<int32_t> expected;
        for (int64_t i = 0; i < count; ++i) {
          if (logits[i] >= least) expected.push_back(static_cast<int32_t>(i));
        }
        std::vector<int32_t> places(kPlacesRoom);
        places.resize(PlacesFrom(least, logits.data(), count, places.data()));
        ASSERT_EQ(places, expected) << target << " " << count << " " << least;
      }
    }
  });
}

TEST(SoftmaxWeightsTest, ExponentialsWithinTheStatedError) {
  ForEachTarget([](const char* target) {
    for (const double temperature : {0.05, 0.7, 1.0, 30.0}) {
      for (const int64_t count : {1, 63, 64, 65, 1000}) {
        const auto logits = Logits(count, 3);
        const auto [weights, sums] = WeightsOf(logits, 70, temperature);
        for (int64_t i = 0; i < count; ++i) {
          const long double x = (static_cast<long double>(logits[i]) - 70) / temperature;
          const long double exact = x < -1021 * std::log(2.0L) ? 0 : std::exp(x);
          // The argument itself is rounded to 53 bits.
          ASSERT_NEAR(weights[i], static_cast<double>(exact),
                      static_cast<double>(exact * (1e-14L + std::abs(x) * 0x1p-51L)))
              << target << " " << static_cast<double>(x);
        }
        for (size_t i = count; i < weights.size(); ++i) ASSERT_EQ(weights[i], 0);
        std::vector<double> alone(sums.size(), -1);
        SoftmaxBlockSums(logits.data(), count, 70, temperature, alone.data());
        ASSERT_EQ(alone, sums);
        for (size_t b = 0; b < sums.size(); ++b) {
          long double sum = 0;
          for (int i = 0; i < 64; ++i) sum += weights[64 * b + i];
          ASSERT_NEAR(sums[b], static_cast<double>(sum), static_cast<double>(sum) * 1e-14);
          ASSERT_EQ(sums[b], BlockSum(weights.data() + 64 * b));
        }
      }
    }
  });
}

TEST(SoftmaxWeightsTest, WeightsAtTheEdges) {
  ForEachTarget([](const char* target) {
    const float max = std::numeric_limits<float>::max();
    EXPECT_EQ(WeightsOf({5, kNan, -kInf, -704}, 5, 1).weights[0], 1) << target;
    EXPECT_EQ(WeightsOf({5, kNan, -kInf, -704}, 5, 1).sums[0], 1) << target;
    EXPECT_EQ(WeightsOf({kInf, max, 0}, max, 1).sums[0], 2) << target;
    EXPECT_EQ(WeightsOf({max, -max}, max, 1e-300).sums[0], 1) << target;
    EXPECT_EQ(WeightsOf({3, 3}, 3, 5e-324).sums[0], 2) << target;
  });
}

TEST(SoftmaxWeightsTest, MassIsThatOfTheWeightsThatReachTheBound) {
  ForEachTarget([](const char* target) {
    const auto logits = Logits(500, 8);
    const auto weights = WeightsOf(logits, 80, 10).weights;
    for (const double least : {0.0, 1e-5, 1e-3, weights[17], 0.2, 2.0}) {
      long double sum = 0;
      int64_t count = 0;
      for (const double weight : weights) {
        if (weight < least) continue;
        ++count;
        sum += weight;
      }
      const Mass mass = MassFrom(least, weights.data(), 8);
      EXPECT_EQ(mass.count, count) << target;
      EXPECT_NEAR(mass.sum, static_cast<double>(sum), 1e-14) << target;
    }
  });
}

TEST(SoftmaxWeightsTest, TheSameBitsOnEveryInstructionSet) {
  const auto logits = Logits(3001, 5);
  std::vector<std::vector<double>> all;
  ForEachTarget([&](std::string_view target) {
    if (!HasFusedMultiplyAdd(target)) return;
    auto [weights, sums] = WeightsOf(logits, 90, 3);
    weights.insert(weights.end(), sums.begin(), sums.end());
    weights.push_back(MassFrom(1e-4, weights.data(), VocabularyBlocks(3001)).sum);
    all.push_back(std::move(weights));
  });
  for (const auto& other : all) EXPECT_EQ(other, all.front());
}

}  // namespace
}  // namespace fermata
