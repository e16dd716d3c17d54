#include "client/bench/measurements.h"

#include <algorithm>

#include "client/bench/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// By counting: the smallest value that at least a share q do not exceed.
float Naive(const std::vector<float>& values, double q) {
  std::vector<float> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  for (const float value : sorted) {
    const auto not_above =
        std::count_if(values.begin(), values.end(), [value](float x) { return x <= value; });
    if (static_cast<double>(not_above) >= q * static_cast<double>(values.size())) return value;
  }
  return sorted.back();
}

TEST(QuantilesTest, AreThoseOfASort) {
  Random random(1);
  for (const int count : {1, 2, 3, 10, 19, 20, 21, 99, 100, 101, 500}) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(random.Below(60)));
    const Quantiles q = QuantilesOf(values);
    EXPECT_EQ(q.count, count);
    EXPECT_EQ(q.p50, Naive(values, 0.5)) << count;
    EXPECT_EQ(q.p90, Naive(values, 0.9)) << count;
    EXPECT_EQ(q.p95, Naive(values, 0.95)) << count;
    EXPECT_EQ(q.p99, Naive(values, 0.99)) << count;
    EXPECT_EQ(q.max, *std::max_element(values.begin(), values.end()));
  }
  EXPECT_EQ(QuantilesOf({}).count, 0);
  EXPECT_EQ(QuantilesOf({1, 2, 6}).mean, 3);
}

// A request of 3 tokens: intended, sent a little later, tokens at first, +0.1 and +0.3 s.
RequestRecord Completed(double intended, double first) {
  RequestRecord record{.intended = intended,
                       .sendable = intended,
                       .sent = intended + 0.01,
                       .ended = first + 0.4,
                       .first_token = first,
                       .last_token = first + 0.3,
                       .gaps = {0.1f, 0.2f},
                       .chunks = {{first, 1}, {first + 0.1, 1}, {first + 0.3, 1}},
                       .prompt_tokens = 10};
  record.complete.emplace().mutable_usage()->set_prompt_tokens(10);
  record.complete->mutable_usage()->set_generated_tokens(3);
  record.complete->set_finish_reason(v1::LENGTH);
  record.complete->mutable_timings()->mutable_queue()->set_nanos(250'000'000);
  record.complete->mutable_timings()->mutable_time_to_first_token()->set_seconds(1);
  return record;
}

TEST(MeasurementsTest, CountsFromTheIntendedTime) {
  Measurements measurements(0, {});
  measurements.Add(Completed(1, 3));
  const Summary s = measurements.Summarise(10);
  EXPECT_FLOAT_EQ(s.time_to_first_token.max, 2);
  EXPECT_FLOAT_EQ(s.end_to_end.max, 2.4);
  EXPECT_FLOAT_EQ(s.inter_token.mean, 0.15);
  EXPECT_EQ(s.inter_token.count, 2);
  EXPECT_FLOAT_EQ(s.server_queue.max, 0.25);
  EXPECT_FLOAT_EQ(s.server_time_to_first_token.max, 1);
  EXPECT_NEAR(s.send_delay.max, 0.01, 1e-6);
  EXPECT_EQ(s.prompt_tokens, 10);
  EXPECT_EQ(s.generated_tokens, 3);
  EXPECT_THAT(s.finish_reasons, ElementsAre(Pair("LENGTH", 1)));
}

TEST(MeasurementsTest, ThroughputIsThatOfTheWindow) {
  Measurements measurements(2, {});
  measurements.Add(Completed(1, 1.8));  // Of the warm-up; 1 token and the end come after it.
  measurements.Add(Completed(2, 3));    // All inside.
  measurements.Add(Completed(3, 5.8));  // 2 tokens before the window's end, the rest after it.
  const Summary s = measurements.Summarise(6);
  EXPECT_EQ(s.seconds, 4);
  EXPECT_EQ(s.warmup_requests, 1);
  EXPECT_EQ(s.sent, 2);
  EXPECT_EQ(s.completed, 2);
  EXPECT_EQ(s.generated_tokens, 6);
  EXPECT_EQ(s.received_tokens, 9);
  EXPECT_DOUBLE_EQ(s.requests_per_second, 2.0 / 4);
  EXPECT_DOUBLE_EQ(s.generated_tokens_per_second, 6.0 / 4);
  EXPECT_DOUBLE_EQ(s.prompt_tokens_per_second, 20.0 / 4);
}

TEST(MeasurementsTest, FailuresAreCountedByKindAndHaveNoLatency) {
  Measurements measurements(0, {});
  for (int i = 0; i < 3; ++i) {
    measurements.Add({.intended = 1,
                      .ended = 2,
                      .status = i < 2 ? absl::UnavailableError("gone") : absl::AbortedError("")});
  }
  measurements.Add({.intended = 1, .ended = 2, .status = absl::CancelledError(), .cut = true});
  const Summary s = measurements.Summarise(10);
  EXPECT_EQ(s.sent, 4);
  EXPECT_EQ(s.failed, 3);
  EXPECT_EQ(s.cut, 1);
  EXPECT_EQ(s.completed, 0);
  EXPECT_EQ(s.end_to_end.count, 0);
  EXPECT_THAT(s.failures,
              ElementsAre(Pair(Pair("ABORTED", ""), 1), Pair(Pair("UNAVAILABLE", ""), 2)));
}

TEST(MeasurementsTest, GoodputIsOfBothGoals) {
  for (const auto& [first, gap, good] :
       {std::tuple{2.1, 0.16, 1}, std::tuple{1.9, 0.16, 0}, std::tuple{2.1, 0.14, 0}}) {
    Measurements measurements(0, {.time_to_first_token = first, .inter_token = gap});
    measurements.Add(Completed(1, 3));  // First after 2 s, then 0.15 s on average.
    EXPECT_EQ(measurements.Summarise(10).good, good) << first << " " << gap;
    EXPECT_DOUBLE_EQ(measurements.Summarise(10).good_per_second, good / 10.0);
  }
}

}  // namespace
}  // namespace fermata::bench
