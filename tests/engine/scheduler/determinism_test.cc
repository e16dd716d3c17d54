// Promise 3: what a sequence says depends on nothing but the model and its own requests. Sequences of
// mixed lengths and settings come, go and are cancelled at random, under several budgets and numbers
// of threads, and each must say to the bit what it says alone.

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/scheduler/engine.h"
#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

constexpr int kSequences = 64;
constexpr int kClients = 4;

TurnRequest Sequence(int number) {
  std::mt19937 random(number);
  std::string prompt;
  const size_t length = 1 + random() % (number % 5 == 0 ? 300 : 40);
  while (prompt.size() < length) prompt.push_back(static_cast<char>('a' + random() % 26));
  TurnRequest request = SeededTurn(prompt, static_cast<int>(1 + random() % 30), random());
  SamplingParams& sampling = request.sampling;
  if (number % 3 == 0) sampling.temperature = 0;
  if (number % 4 == 1) sampling.top_k = 20;
  if (number % 4 == 2) sampling.top_p = 0.9;
  if (number % 5 == 1) sampling.min_p = 0.01;
  if (number % 2 == 0) sampling.repetition_penalty = 1.2;
  sampling.logprobs = number % 4 - 1;
  request.claim = {.priority = number % 5 - 2, .tenant = "tenant " + std::to_string(number % 3)};
  return request;
}

// Tokens and log-probabilities, as numbers to compare.
std::vector<double> Said(const RecordingSink& sink) {
  std::vector<double> said;
  for (const SampledToken& sampled : sink.sampled()) {
    said.push_back(sampled.token);
    said.push_back(sampled.logprob);
    for (const TokenLogprob& top : sampled.top) {
      said.push_back(top.token);
      said.push_back(top.logprob);
    }
  }
  return said;
}

const std::vector<std::vector<double>>& SaidAlone() {
  static const auto* said = [] {
    auto* all = new std::vector<std::vector<double>>;
    TestEngine engine({.max_running = 1});
    for (int i = 0; i < kSequences; ++i) all->push_back(Said(*engine.Run(Sequence(i))));
    return all;
  }();
  return *said;
}

// One client's share of the sequences, in an order of its own, several at a time.
void RunShare(TestEngine& engine, int client, std::vector<std::shared_ptr<RecordingSink>>& sinks,
              std::vector<char>& cancelled) {
  std::mt19937 random(client * 31 + 7);
  std::vector<int> own;
  for (int i = client; i < kSequences; i += kClients) own.push_back(i);
  std::shuffle(own.begin(), own.end(), random);
  for (const int number : own) {
    sinks[number] = std::make_shared<RecordingSink>();
    const auto handle = engine.Start(Sequence(number), sinks[number]);
    if (random() % 4 == 0) {
      cancelled[number] = 1;
      sinks[number]->WaitForTokens(random() % 6);
      handle->Cancel();
    } else if (random() % 3 == 0) {
      sinks[number]->Wait();
    }
  }
  for (const int number : own) sinks[number]->Wait();
}

void ExpectAsAlone(const EngineOptions& options, int threads) {
  const auto& alone = SaidAlone();
  const int threads_before = ComputeThreads();
  SetComputeThreads(threads, /*min_thread_work=*/threads == 1 ? kMinThreadWork : 1 << 10);
  {
    TestEngine engine(options);
    std::vector<std::shared_ptr<RecordingSink>> sinks(kSequences);
    std::vector<char> cancelled(kSequences);
    std::vector<std::thread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] { RunShare(engine, client, sinks, cancelled); });
    }
    for (std::thread& client : clients) client.join();
    int together = 0;
    for (const StepStats& step : engine.recorder().steps()) together += step.sequences > 1 ? 1 : 0;
    EXPECT_GT(together, 0);
    for (int i = 0; i < kSequences; ++i) {
      std::vector<double> expected = alone[i];
      const std::vector<double> said = Said(*sinks[i]);
      if (cancelled[i] != 0) expected.resize(std::min(expected.size(), said.size()));
      EXPECT_EQ(said, expected) << i;
    }
  }
  SetComputeThreads(threads_before);
}

TEST(DeterminismTest, WhateverTheBudget) {
  for (const int budget : {1, 7, 64, 256}) {
    SCOPED_TRACE(budget);
    ExpectAsAlone({.prefill_tokens_per_step = budget}, 1);
  }
}

TEST(DeterminismTest, WhateverTheTimeAStepMayTake) {
  for (const absl::Duration target : {absl::Nanoseconds(1), absl::Microseconds(300)}) {
    ExpectAsAlone({.max_running = 16, .step_time_target = target}, 1);
  }
}

TEST(DeterminismTest, WhateverTheNumberOfThreads) {
  for (const int threads : {2, 4}) {
    for (const int budget : {7, 64, 256}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, budget " << budget);
      ExpectAsAlone({.max_running = 24, .prefill_tokens_per_step = budget}, threads);
    }
  }
}

}  // namespace
}  // namespace fermata
