#include "client/bench/arrivals.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

std::vector<double> Take(Arrivals& arrivals, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    times.push_back(arrivals.Next()->seconds);
    arrivals.Pop();
  }
  return times;
}

TEST(ArrivalsTest, ConstantOnesComeEvenly) {
  ConstantArrivals arrivals(4);
  EXPECT_THAT(Take(arrivals, 4), ElementsAre(0, 0.25, 0.5, 0.75));
}

TEST(ArrivalsTest, PoissonGapsAreExponential) {
  constexpr int kCount = 40000;
  constexpr double kRate = 50;
  PoissonArrivals arrivals(kRate, 3);
  const std::vector<double> times = Take(arrivals, kCount);
  double sum = 0, squares = 0, above_mean = 0, before = 0;
  for (const double time : times) {
    const double gap = (time - before) * kRate;  // Mean and deviation 1.
    ASSERT_GT(gap, 0);
    sum += gap;
    squares += gap * gap;
    above_mean += gap > 1 ? 1 : 0;
    before = time;
  }
  // Five standard errors.
  const double error = 5 / std::sqrt(kCount);
  EXPECT_NEAR(sum / kCount, 1, error);
  EXPECT_NEAR(squares / kCount, 2, error * std::sqrt(20));
  EXPECT_NEAR(above_mean / kCount, std::exp(-1), error * 0.5);
}

TEST(ArrivalsTest, TheSeedDecides) {
  PoissonArrivals a(10, 7), same(10, 7), other(10, 8);
  const std::vector<double> times = Take(a, 100);
  EXPECT_EQ(times, Take(same, 100));
  EXPECT_NE(times, Take(other, 100));
}

TEST(ArrivalsTest, TracesComeScaled) {
  const std::vector<TraceEntry> trace = {{.seconds = 0}, {.seconds = 3}, {.seconds = 3}};
  TraceArrivals arrivals(trace, 1.5);
  EXPECT_EQ(arrivals.Next()->entry, &trace[0]);
  EXPECT_THAT(Take(arrivals, 2), ElementsAre(0, 2));
  EXPECT_EQ(arrivals.Next()->entry, &trace[2]);
  arrivals.Pop();
  EXPECT_FALSE(arrivals.Next());
}

TEST(ArrivalsTest, AClosedLoopWaitsForAnswers) {
  ClosedLoop loop(2, 0.5);
  EXPECT_THAT(Take(loop, 2), ElementsAre(0, 0));
  EXPECT_FALSE(loop.Next());
  loop.OnEnd(3);
  loop.OnEnd(2);
  EXPECT_THAT(Take(loop, 2), ElementsAre(DoubleEq(2.5), DoubleEq(3.5)));
  EXPECT_FALSE(loop.Next());
}

}  // namespace
}  // namespace fermata::bench
