// Rows that several threads choose from at once, as the scheduler does.

#include <random>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/sampling/sampler.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

struct Choice {
  int32_t token = 0;
  float logprob = 0;
  std::vector<int32_t> top;
  bool operator==(const Choice&) const = default;
};

TEST(ThreadsTest, TheSameChoicesForEveryNumberOfThreads) {
  constexpr int kRows = 97;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 3);
  std::vector<std::vector<float>> rows(kRows);
  std::vector<SamplingParams> params(kRows);
  SamplerMemory memory;
  for (int i = 0; i < 300; ++i) memory.Append(i % 90);
  for (int i = 0; i < kRows; ++i) {
    rows[i].resize(100 + random() % 9000);
    for (float& logit : rows[i]) logit = normal(random);
    params[i].temperature = 0.3 * (i % 5);
    if (i % 3 == 0) params[i].top_k = 1 + i;
    if (i % 4 == 0) params[i].top_p = 0.9;
    if (i % 5 == 0) params[i].min_p = 0.01;
    if (i % 2 == 0) params[i].repetition_penalty = 1.3;
    params[i].logprobs = i % 7 - 1;
    params[i].seed = random();
  }
  std::vector<std::vector<Choice>> by_threads;
  const int threads_before = ComputeThreads();
  for (const int threads : {1, 2, 4}) {
    SetComputeThreads(threads, /*min_thread_work=*/1);
    std::vector<Choice> choices(kRows);
    ParallelFor(kRows, 1 << 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const SampledToken sampled = Sample(rows[i], params[i], memory, i, true);
        choices[i] = {.token = sampled.token, .logprob = sampled.logprob, .top = {}};
        for (const TokenLogprob& top : sampled.top) choices[i].top.push_back(top.token);
      }
    });
    by_threads.push_back(std::move(choices));
  }
  SetComputeThreads(threads_before);
  for (const auto& choices : by_threads) EXPECT_EQ(choices, by_threads.front());
}

}  // namespace
}  // namespace fermata
