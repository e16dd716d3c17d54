#include "engine/sampling/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/sampling/reference.h"

namespace fermata {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits on a coarse grid, so that ties are common.
std::vector<float> GridLogits(std::mt19937& random, size_t size) {
  std::vector<float> logits(size);
  for (float& logit : logits) logit = static_cast<float>(static_cast<int>(random() % 25) - 12) / 4;
  return logits;
}

// The tokens that come up over many positions at a temperature that makes what is kept likely.
std::set<int> Support(const std::vector<float>& logits, const SamplingParams& params,
                      const SamplerMemory& memory, bool allow_stop) {
  std::set<int> support;
  for (int position = 0; position < 3000; ++position) {
    support.insert(Sample(logits, params, memory, position, allow_stop).token);
  }
  return support;
}

std::set<int> ReferenceSupport(const std::vector<float>& logits, const SamplingParams& params,
                               const SamplerMemory& memory, bool allow_stop) {
  std::set<int> support;
  const auto exact = ReferenceDistribution(logits, params, memory, allow_stop);
  for (size_t id = 0; id < exact.size(); ++id) {
    if (exact[id] > 0) support.insert(static_cast<int>(id));
  }
  return support;
}

int Greedy(const std::vector<float>& logits, SamplingParams params,
           const SamplerMemory& memory = {}, bool allow_stop = true) {
  params.temperature = 0;
  return Sample(logits, params, memory, 0, allow_stop).token;
}

TEST(SamplerTest, TruncationKeepsWhatTheDefinitionKeeps) {
  std::mt19937 random(4);
  for (int round = 0; round < 120; ++round) {
    const auto logits = GridLogits(random, 5 + random() % 15);
    SamplingParams params{.temperature = 2.5};
    params.seed = random();
    if (round % 4 == 0 || round % 4 == 3) params.top_k = 1 + static_cast<int>(random() % 12);
    if (round % 4 == 1 || round % 4 == 3) params.top_p = 0.01 + 0.98 * (random() % 1000) / 1000;
    if (round % 4 == 2 || round % 4 == 3) params.min_p = 0.9 * (random() % 1000) / 1000;
    ASSERT_EQ(Support(logits, params, {}, true), ReferenceSupport(logits, params, {}, true))
        << round;
  }
}

// More tokens than the first beginning that top_p sorts, and mass spread over all of them.
TEST(SamplerTest, TopPReachesFarIntoFlatDistributions) {
  std::vector<float> logits(1000, 0.0f);
  for (int id = 0; id < 1000; ++id) logits[id] = 1e-4f * static_cast<float>(id % 7);
  SamplingParams params{.top_p = 0.9};
  const auto exact = ReferenceDistribution(logits, params, {}, true);
  int kept = 0;
  for (const double p : exact) kept += p > 0 ? 1 : 0;
  EXPECT_NEAR(kept, 900, 2);
  std::set<int> seen;
  for (int position = 0; position < 30000; ++position) {
    const int token = Sample(logits, params, {}, position, true).token;
    ASSERT_GT(exact[token], 0) << token;
    seen.insert(token);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), kept);
}

TEST(SamplerTest, GreedyTakesTheLargestAndTheSmallestIdAmongEquals) {
  EXPECT_EQ(Greedy({1, 3, 2, 3}, {}), 1);
  EXPECT_EQ(Greedy({-5, -5}, {}), 0);
  EXPECT_EQ(Greedy({0, 1}, {.logit_bias = {{0, 1.5f}}}), 0);
  SamplingParams stop;
  stop.stop_token_ids = {1, 3};
  EXPECT_EQ(Greedy({1, 3, 2, 3}, stop, {}, /*allow_stop=*/false), 2);
  EXPECT_EQ(Greedy({1, 3, 2, 3}, stop, {}, /*allow_stop=*/true), 1);
}

// The bias that just does and just does not bring a penalised token back shows its adjusted logit.
void ExpectAdjusted(float logit, const SamplingParams& params, const SamplerMemory& memory,
                    double adjusted) {
  for (const double side : {-1e-4, 1e-4}) {
    const std::vector<float> logits = {static_cast<float>(adjusted + side), logit};
    EXPECT_EQ(Greedy(logits, params, memory), side < 0 ? 1 : 0) << logit << " " << adjusted;
  }
}

TEST(SamplerTest, PenaltiesByTheirFormulas) {
  SamplerMemory memory;
  for (const int token : {1, 5, 1, 1, 5}) memory.Append(token);
  ExpectAdjusted(3.0f, {.repetition_penalty = 1.5}, memory, 2.0);
  ExpectAdjusted(-3.0f, {.repetition_penalty = 1.5}, memory, -4.5);
  ExpectAdjusted(3.0f, {.presence_penalty = 0.5}, memory, 2.5);
  ExpectAdjusted(3.0f, {.frequency_penalty = 0.5}, memory, 1.5);
  ExpectAdjusted(3.0f, {.frequency_penalty = -0.5}, memory, 4.5);
  // Bias first, then repetition, then the two that subtract.
  ExpectAdjusted(3.0f,
                 {.repetition_penalty = 2,
                  .presence_penalty = 0.25,
                  .frequency_penalty = 1,
                  .logit_bias = {{1, 1.0f}}},
                 memory, (3.0 + 1.0) / 2 - 0.25 - 3 * 1);
}

TEST(SamplerTest, PenaltiesSeeTheWindowAlone) {
  SamplerMemory memory;
  for (const int token : {1, 1, 5, 6, 7}) memory.Append(token);
  ExpectAdjusted(3.0f, {.frequency_penalty = 1, .penalty_window = 0}, memory, 3.0);
  ExpectAdjusted(3.0f, {.frequency_penalty = 1, .penalty_window = 3}, memory, 3.0);
  ExpectAdjusted(3.0f, {.frequency_penalty = 1, .penalty_window = 4}, memory, 2.0);
  ExpectAdjusted(3.0f, {.frequency_penalty = 1, .penalty_window = 5}, memory, 1.0);
  ExpectAdjusted(3.0f, {.frequency_penalty = 1, .penalty_window = 4096}, memory, 1.0);
}

TEST(SamplerTest, APureFunctionOfItsArguments) {
  std::mt19937 random(8);
  const auto logits = GridLogits(random, 500);
  SamplingParams params{.temperature = 1.5, .top_k = 100, .top_p = 0.95};
  params.seed = 12345;
  std::vector<int> first;
  for (int position = 0; position < 200; ++position) {
    first.push_back(Sample(logits, params, {}, position, true).token);
  }
  // In another order, with other vocabularies in between.
  for (int position = 199; position >= 0; --position) {
    Sample(GridLogits(random, 3 + random() % 900), {.top_p = 0.5}, {}, position, true);
    ASSERT_EQ(Sample(logits, params, {}, position, true).token, first[position]);
  }
  EXPECT_GT(std::set<int>(first.begin(), first.end()).size(), 20u);
}

TEST(SamplerTest, HugeAndBrokenLogits) {
  for (const double temperature : {0.0, 1e-9, 1.0, 100.0}) {
    SamplingParams params{.temperature = temperature, .top_k = 3, .top_p = 0.99, .min_p = 0.01};
    for (int position = 0; position < 20; ++position) {
      const auto draw = [&](std::vector<float> logits) {
        return Sample(logits, params, {}, position, true).token;
      };
      EXPECT_EQ(draw({-1e30f, 1e30f, 0}), 1);
      EXPECT_EQ(draw({kNan, -1e30f, kNan, -kInf}), 1);
      EXPECT_EQ(draw({0, kInf, 1e30f}), 1);
      EXPECT_EQ(draw({kNan, kNan}), 0);
      EXPECT_EQ(draw({-kInf, -kInf, -kInf}), 0);
    }
  }
  // +inf twice is two equal logits.
  EXPECT_EQ(Support({kInf, 0, kInf}, {}, {}, true), (std::set<int>{0, 2}));
}

TEST(SamplerTest, StopTokensAreBannedEvenWhenNothingElseIsLeft) {
  SamplingParams params;
  params.stop_token_ids = {0, 2};
  EXPECT_EQ(Support({5, -5, 5, -5}, params, {}, false), (std::set<int>{1, 3}));
  EXPECT_EQ(Support({5, -kInf, 5, kNan}, params, {}, false), (std::set<int>{1}));
  params.stop_token_ids = {0, 1};
  EXPECT_EQ(Sample(std::vector<float>{1, 2}, params, {}, 0, false).token, 0);
}

TEST(SamplerTest, TokensOutsideTheVocabularyAreNotPenalized) {
  SamplerMemory memory;
  memory.Append(1000);
  EXPECT_EQ(Greedy({0, 1}, {.frequency_penalty = 5}, memory), 1);
}

TEST(SamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  SamplingParams params{.temperature = 0.1, .top_k = 1, .logit_bias = {{0, 50.0f}}};
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  EXPECT_TRUE(Sample(logits, params, {}, 0, true).top.empty());
  params.logprobs = 2;
  const SampledToken sampled = Sample(logits, params, {}, 0, true);
  EXPECT_EQ(sampled.token, 0);
  EXPECT_NEAR(sampled.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_NEAR(sampled.top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(sampled.top[1].token, 2);
}

}  // namespace
}  // namespace fermata
