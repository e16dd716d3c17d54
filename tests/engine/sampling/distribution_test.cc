// Samples against the exact probabilities. Seeds are fixed, so the tests always give the same
// answer; the bounds are those that a right sampler exceeds once in 10,000 seeds.

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/sampling/sampler.h"
#include "gtest/gtest.h"
#include "tests/engine/sampling/reference.h"

namespace fermata {
namespace {

// The bound that chi-square with `freedom` degrees exceeds with probability 1e-4 (Wilson and
// Hilferty's approximation, good to a percent here).
double ChiSquareBound(double freedom) {
  constexpr double kNormalQuantile = 3.719;
  const double a = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1 - a + kNormalQuantile * std::sqrt(a), 3);
}

// Draws at `draws` positions and compares the counts with the reference. Tokens without
// probability must never come; those expected fewer than 5 times are counted together.
void ExpectDistribution(const std::vector<float>& logits, const SamplingParams& params,
                        const SamplerMemory& memory, bool allow_stop) {
  constexpr int kDraws = 20000;
  const auto exact = ReferenceDistribution(logits, params, memory, allow_stop);
  std::vector<int> counts(logits.size());
  for (int position = 0; position < kDraws; ++position) {
    ++counts[Sample(logits, params, memory, position, allow_stop).token];
  }
  double chi_square = 0;
  double freedom = -1;
  double rare_expected = 0;
  double rare_count = 0;
  const auto add = [&](double expected, double count) {
    chi_square += (count - expected) * (count - expected) / expected;
    ++freedom;
  };
  for (size_t id = 0; id < exact.size(); ++id) {
    ASSERT_TRUE(exact[id] > 0 || counts[id] == 0) << id;
    if (exact[id] * kDraws >= 5) {
      add(exact[id] * kDraws, counts[id]);
    } else {
      rare_expected += exact[id] * kDraws;
      rare_count += counts[id];
    }
  }
  if (rare_expected >= 1) add(rare_expected, rare_count);
  if (freedom > 0) {
    EXPECT_LT(chi_square, ChiSquareBound(freedom)) << freedom;
  } else {
    EXPECT_LT(rare_count, 20);
  }
}

std::vector<float> RandomLogits(uint32_t seed, size_t size, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(DistributionTest, SoftmaxAtSeveralTemperatures) {
  for (const double temperature : {0.3, 1.0, 4.0}) {
    SamplingParams params{.temperature = temperature};
    params.seed = 17;
    ExpectDistribution(RandomLogits(1, 40, 2), params, {}, true);
  }
}

TEST(DistributionTest, EachTruncation) {
  const auto logits = RandomLogits(2, 60, 2);
  SamplingParams top_k{.top_k = 7};
  ExpectDistribution(logits, top_k, {}, true);
  SamplingParams top_p{.top_p = 0.7};
  ExpectDistribution(logits, top_p, {}, true);
  SamplingParams min_p{.min_p = 0.1};
  ExpectDistribution(logits, min_p, {}, true);
}

TEST(DistributionTest, AllTogether) {
  SamplerMemory memory;
  for (int i = 0; i < 100; ++i) memory.Append(i * i % 50);
  SamplingParams params{.temperature = 1.3,
                        .top_k = 20,
                        .top_p = 0.9,
                        .min_p = 0.02,
                        .repetition_penalty = 1.2,
                        .presence_penalty = 0.3,
                        .frequency_penalty = -0.1,
                        .penalty_window = 30,
                        .logit_bias = {{3, 2.0f}, {8, -5.0f}},
                        .seed = 99,
                        .stop_token_ids = {1, 2}};
  ExpectDistribution(RandomLogits(3, 50, 1.5), params, memory, true);
  ExpectDistribution(RandomLogits(3, 50, 1.5), params, memory, false);
}

// Draw by draw, over vocabularies of many blocks: the token at which the reference's mass, summed in
// order of id, passes the random number that sampler.h names.
TEST(DistributionTest, EachDrawIsTheInverseOfTheReference) {
  std::mt19937 random(31);
  for (int round = 0; round < 400; ++round) {
    const size_t size = 1 + random() % (round % 4 == 0 ? 9000 : 700);
    const auto logits = RandomLogits(round, size, static_cast<float>(round % 6));
    SamplingParams params{.temperature = 0.2 + 0.1 * (round % 20)};
    params.seed = random();
    if (round % 2 == 0) params.top_k = 1 + static_cast<int>(random() % (2 * size));
    if (round % 3 == 0) params.top_p = 0.01 + 0.98 * (random() % 1000) / 1000;
    if (round % 5 == 0) params.min_p = 0.2 * (random() % 1000) / 1000;
    SamplerMemory memory;
    if (round % 7 == 0) params.repetition_penalty = 1.4;
    if (round % 7 == 0) params.frequency_penalty = -0.2;
    for (int i = 0; i < 200; ++i) memory.Append(static_cast<int32_t>(random() % size));
    if (round % 8 == 0) params.logit_bias = {{static_cast<int32_t>(random() % size), 8.0f}};
    if (round % 9 == 0 && size > 1) params.stop_token_ids = {static_cast<int32_t>(random() % size)};
    const auto exact = ReferenceDistribution(logits, params, memory, false);
    for (int64_t position = 0; position < 5; ++position) {
      const double uniform = PhiloxUniform(params.seed, position, 0);
      const int32_t token = Sample(logits, params, memory, position, false).token;
      const double before = std::accumulate(exact.begin(), exact.begin() + token, 0.0);
      ASSERT_GT(exact[token], 0) << round;
      ASSERT_GE(uniform, before - 1e-12) << round;
      ASSERT_LE(uniform, before + exact[token] + 1e-12) << round;
    }
  }
}

TEST(DistributionTest, PositionsAndSeedsAreUncorrelated) {
  // Two equally likely tokens: pairs of neighbours (in position, in seed) are as likely as each
  // other, four kinds of pairs, three degrees of freedom.
  const std::vector<float> logits = {0, 0};
  const auto draw = [&](uint64_t seed, int64_t position) {
    SamplingParams params;
    params.seed = seed;
    return Sample(logits, params, {}, position, true).token;
  };
  constexpr int kDraws = 20000;
  for (const bool along_seeds : {false, true}) {
    double counts[4] = {};
    for (int i = 0; i < kDraws; ++i) {
      const int first = along_seeds ? draw(2 * i, 7) : draw(7, 2 * i);
      const int second = along_seeds ? draw(2 * i + 1, 7) : draw(7, 2 * i + 1);
      ++counts[2 * first + second];
    }
    double chi_square = 0;
    for (const double count : counts) {
      chi_square += (count - kDraws / 4.0) * (count - kDraws / 4.0) / (kDraws / 4.0);
    }
    EXPECT_LT(chi_square, 21.1);  // Exceeded once in 10,000.
  }
}

}  // namespace
}  // namespace fermata
