#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/sampling/sampler.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(LogprobsTest, LogSoftmaxAndTheMostLikelyInOrder) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0, 5);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 300);
    for (float& logit : logits) {
      logit = round % 2 == 0 ? normal(random) : static_cast<float>(random() % 5);  // Ties.
    }
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });

    const auto token = static_cast<int32_t>(random() % logits.size());
    const auto top = static_cast<int32_t>(random() % 21);
    const SampledToken scored = ScoreToken(logits, token, top);
    EXPECT_EQ(scored.token, token);
    EXPECT_NEAR(scored.logprob, static_cast<double>(logits[token] - std::log(sum)), 2e-6);
    ASSERT_EQ(scored.top.size(), std::min<size_t>(top, logits.size()));
    for (size_t i = 0; i < scored.top.size(); ++i) {
      ASSERT_EQ(scored.top[i].token, order[i]);
      EXPECT_NEAR(scored.top[i].logprob, static_cast<double>(logits[order[i]] - std::log(sum)),
                  2e-6);
    }
  }
}

// 2^20 equal logits: a float32 sum would be off by far more.
TEST(LogprobsTest, SumsInFloat64) {
  const std::vector<float> logits(1 << 20, 0.1f);
  EXPECT_FLOAT_EQ(ScoreToken(logits, 3, 0).logprob, -20 * std::log(2.0f));
}

TEST(LogprobsTest, AlwaysFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> kCases = {{1e30f, -1e30f}, {kInf, 0},     {-kInf, 0},
                                                  {-kInf, -kInf},  {nan, nan},    {nan, 1},
                                                  {3e38f, -3e38f}, {kInf, -3e38f}};
  for (const auto& logits : kCases) {
    for (const int token : {0, 1}) {
      const SampledToken scored = ScoreToken(logits, token, 2);
      EXPECT_TRUE(std::isfinite(scored.logprob));
      EXPECT_LE(scored.logprob, 0);
      for (const auto& top : scored.top) EXPECT_TRUE(std::isfinite(top.logprob));
    }
  }
  EXPECT_EQ(ScoreToken(std::vector<float>{-kInf, 0}, 0, 0).logprob, kNoLogprob);
  EXPECT_EQ(ScoreToken(std::vector<float>{nan, 0}, 1, 0).logprob, 0);
  EXPECT_FLOAT_EQ(ScoreToken(std::vector<float>{1e30f, -1e30f}, 1, 0).logprob, -2e30f);
}

}  // namespace
}  // namespace fermata
