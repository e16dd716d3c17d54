#include "engine/scheduler/budget.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

// A machine whose steps cost as a straight line says.
struct Machine {
  double step = 0;
  double row = 0;
  double token = 0;
  double Seconds(int64_t rows, int64_t tokens) const {
    return step + row * static_cast<double>(rows) + token * static_cast<double>(tokens);
  }
};

constexpr double kTarget = 0.05;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

StepBudget Budget(double target = kTarget) {
  return StepBudget({.target_seconds = target, .min_tokens = 16, .max_tokens = 256});
}

// A step of `rows` rows and as many prompt tokens as the budget gives.
double RunStep(StepBudget& budget, const Machine& machine, int64_t rows, double noise = 1) {
  const int64_t tokens = budget.PromptTokens(rows);
  EXPECT_GE(tokens, 16);
  EXPECT_LE(tokens, 256);
  const double seconds = machine.Seconds(rows, tokens) * noise;
  budget.Observe(rows, tokens, seconds);
  return seconds;
}

TEST(StepBudgetTest, AllOfItWhenNothingDecodes) {
  StepBudget budget = Budget();
  EXPECT_EQ(budget.PromptTokens(0), 256);
  budget.Observe(0, 256, 100);
  EXPECT_EQ(budget.PromptTokens(0), 256);
}

TEST(StepBudgetTest, AllOfItWithoutATarget) {
  StepBudget budget = Budget(kInfinity);
  budget.Observe(64, 256, 100);
  EXPECT_EQ(budget.PromptTokens(64), 256);
}

TEST(StepBudgetTest, BeginsWithTheLeastAndAtMostDoubles) {
  StepBudget budget = Budget();
  const Machine free;
  int64_t last = budget.PromptTokens(1);
  EXPECT_EQ(last, 16);
  for (int i = 0; i < 10; ++i) {
    RunStep(budget, free, 1);
    EXPECT_LE(budget.PromptTokens(1), 2 * last);
    last = budget.PromptTokens(1);
  }
  EXPECT_EQ(last, 256) << "what costs nothing is held up by nothing";
}

TEST(StepBudgetTest, FillsTheTargetAndKeepsIt) {
  for (const Machine& machine : {Machine{0.005, 0.0002, 0.0002}, Machine{0.02, 0.0001, 0.0005},
                                 Machine{0.0, 0.0, 0.0015}, Machine{0.03, 0.0003, 0.0001}}) {
    for (const int64_t rows : {1, 8, 64}) {
      StepBudget budget = Budget();
      for (int i = 0; i < 60; ++i) RunStep(budget, machine, rows);
      const double fits = (kTarget - machine.Seconds(rows, 0)) / machine.token;
      const auto expected =
          static_cast<double>(std::clamp<int64_t>(static_cast<int64_t>(fits), 16, 256));
      EXPECT_NEAR(static_cast<double>(budget.PromptTokens(rows)), expected, 1 + expected / 8)
          << machine.token << " " << rows;
    }
  }
}

// Steps differ in what they hold, and are held up by a tenth either way.
TEST(StepBudgetTest, StaysNearTheTargetWithNoiseAndChangingLoad) {
  const Machine machine = {0.008, 0.0002, 0.0004};
  StepBudget budget = Budget();
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  int long_steps = 0;
  int64_t rows = 0;
  for (int i = 0; i < 2000; ++i) {
    if (i % 20 == 0) rows = static_cast<int64_t>(random() % 65);
    if (random() % 3 == 0) {  // No prompt to read.
      budget.Observe(rows, 0, machine.Seconds(rows, 0) * noise(random));
      continue;
    }
    const double seconds = RunStep(budget, machine, rows, noise(random));
    if (rows > 0 && i > 50 && seconds > 1.3 * kTarget) ++long_steps;
  }
  EXPECT_LE(long_steps, 20);  // One in a hundred.
}

TEST(StepBudgetTest, FollowsAMachineThatBecomesSlower) {
  StepBudget budget = Budget();
  for (int i = 0; i < 10000; ++i) RunStep(budget, {0.005, 0.0001, 0.0002}, 8);
  EXPECT_GT(budget.PromptTokens(8), 150);
  for (int i = 0; i < 40; ++i) RunStep(budget, {0.010, 0.0002, 0.0008}, 8);
  EXPECT_LT(Machine({0.010, 0.0002, 0.0008}).Seconds(8, budget.PromptTokens(8)), 1.3 * kTarget);
}

TEST(StepBudgetTest, PromptsMoveHoweverDearTheyAre) {
  StepBudget budget = Budget();
  for (int i = 0; i < 50; ++i) RunStep(budget, {1, 1, 1}, 64);
  EXPECT_EQ(budget.PromptTokens(64), 16);
}

TEST(StepBudgetTest, OneLongStepIsSoonForgotten) {
  StepBudget budget = Budget();
  const Machine machine = {0.005, 0.0001, 0.0002};
  for (int i = 0; i < 100; ++i) RunStep(budget, machine, 8);
  const int64_t before = budget.PromptTokens(8);
  budget.Observe(8, before, 30);
  for (int i = 0; i < 30; ++i) RunStep(budget, machine, 8);
  EXPECT_GT(budget.PromptTokens(8), before * 3 / 4);
}

std::vector<PromptDemand> Demands(const std::vector<int64_t>& tokens) {
  std::vector<PromptDemand> demands;
  for (const int64_t count : tokens) demands.push_back({.position = 0, .tokens = count});
  return demands;
}

TEST(SharePromptBudgetTest, EqualSharesAndWhatTheShortDoNotNeed) {
  EXPECT_THAT(SharePromptBudget(Demands({100, 100}), 60, 1), ElementsAre(30, 30));
  EXPECT_THAT(SharePromptBudget(Demands({100, 5, 100}), 65, 1), ElementsAre(30, 5, 30));
  EXPECT_THAT(SharePromptBudget(Demands({4, 100, 6}), 256, 1), ElementsAre(4, 100, 6));
  EXPECT_THAT(SharePromptBudget(Demands({9, 9, 9, 9}), 6, 1), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(SharePromptBudget(Demands({9, 9, 9}), 2, 1), ElementsAre(1, 1, 0));
  EXPECT_THAT(SharePromptBudget({}, 5, 1), ElementsAre());
}

TEST(SharePromptBudgetTest, InChunksCutsAreAtMultiplesOrTheEnd) {
  EXPECT_THAT(SharePromptBudget(Demands({200, 200}), 64, 64), ElementsAre(64, 0));
  EXPECT_THAT(SharePromptBudget(Demands({200, 200}), 130, 64), ElementsAre(64, 64));
  EXPECT_THAT(SharePromptBudget(Demands({200, 20}), 100, 64), ElementsAre(64, 20));
  EXPECT_THAT(SharePromptBudget(std::vector<PromptDemand>{{.position = 60, .tokens = 100}}, 64, 64),
              ElementsAre(4));
  EXPECT_THAT(SharePromptBudget(std::vector<PromptDemand>{{.position = 60, .tokens = 10}}, 64, 64),
              ElementsAre(10));
}

// By definition: no more than the budget, nothing left that would still fit, cuts where they may be,
// and with a chunk of one nobody has two tokens fewer than another and still wants more.
TEST(SharePromptBudgetTest, KeepsItsRulesForAnyDemands) {
  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    const int64_t chunk = round % 2 == 0 ? 1 : 64;
    std::vector<PromptDemand> demands(1 + random() % 12);
    for (PromptDemand& demand : demands) {
      demand = {.position = static_cast<int64_t>(random() % 300),
                .tokens = 1 + static_cast<int64_t>(random() % (round % 3 == 0 ? 10 : 400))};
    }
    const int64_t budget = chunk + static_cast<int64_t>(random() % 500);
    const auto shares = SharePromptBudget(demands, budget, chunk);
    ASSERT_EQ(shares.size(), demands.size());
    const int64_t given = std::accumulate(shares.begin(), shares.end(), int64_t{0});
    ASSERT_LE(given, budget);
    ASSERT_GT(given, 0);
    int64_t most = 0;
    for (const int64_t share : shares) most = std::max(most, share);
    for (size_t i = 0; i < demands.size(); ++i) {
      const int64_t end = demands[i].position + shares[i];
      ASSERT_GE(shares[i], 0);
      ASSERT_LE(shares[i], demands[i].tokens);
      if (shares[i] == demands[i].tokens) continue;
      ASSERT_TRUE(shares[i] == 0 || end % chunk == 0);
      const int64_t piece = std::min(chunk - end % chunk, demands[i].tokens - shares[i]);
      ASSERT_GT(piece, budget - given) << "there was room for one more piece";
      ASSERT_TRUE(chunk > 1 || shares[i] + 1 >= most);
    }
  }
}

}  // namespace
}  // namespace fermata
