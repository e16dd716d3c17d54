// What choosing the tokens of one step costs, for a batch of rows, by size of the vocabulary and kind
// of truncation. `text`: logits as language models give them on text, few tokens holding most of the
// mass (a Zipf distribution in random order). `flat`: normal logits, as of a model with random
// weights, where truncation has the most to do.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/parallel.h"
#include "engine/sampling/sampler.h"

namespace fermata {
namespace {

// The work of a token of the vocabulary, as the scheduler counts it.
constexpr int64_t kChoiceWork = 8;

std::vector<float> Row(std::mt19937& random, int64_t vocab_size, bool flat) {
  std::vector<float> logits(vocab_size);
  std::normal_distribution<float> normal(0, 3);
  for (int64_t i = 0; i < vocab_size; ++i) {
    logits[i] = flat ? normal(random) : -1.5f * std::log(static_cast<float>(i + 1));
  }
  if (!flat) std::shuffle(logits.begin(), logits.end(), random);
  return logits;
}

void Choose(benchmark::State& state, const SamplingParams& params, bool flat) {
  const int64_t vocab_size = state.range(0);
  const int64_t batch = state.range(1);
  std::mt19937 random(1);
  std::vector<float> logits;
  for (int64_t row = 0; row < batch; ++row) {
    const auto one = Row(random, vocab_size, flat);
    logits.insert(logits.end(), one.begin(), one.end());
  }
  SamplerMemory memory;
  for (int i = 0; i < 256; ++i) memory.Append(i * 7 % static_cast<int>(vocab_size));
  std::vector<SampledToken> tokens(batch);
  int64_t position = 0;
  for (auto _ : state) {
    ++position;
    ParallelFor(batch, kChoiceWork * vocab_size, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto own = std::span<const float>(logits).subspan(row * vocab_size, vocab_size);
        tokens[row] = Sample(own, params, memory, position, true);
      }
    });
  }
  benchmark::DoNotOptimize(tokens.data());
}

void Arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{256, 4096, 65536}, {1, 64}})
      ->ArgNames({"vocabulary", "batch"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

const SamplingParams kAll = {.temperature = 0.8,
                             .top_k = 100,
                             .top_p = 0.95,
                             .min_p = 0.02,
                             .repetition_penalty = 1.1,
                             .logprobs = 5};

BENCHMARK_CAPTURE(Choose, greedy, {.temperature = 0}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, temperature_text, {}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, temperature_flat, {}, true)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, top_k_text, {.top_k = 40}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, top_k_flat, {.top_k = 40}, true)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, top_p_text, {.top_p = 0.95}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, top_p_flat, {.top_p = 0.95}, true)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, min_p_text, {.min_p = 0.05}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, min_p_flat, {.min_p = 0.05}, true)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, penalties_text, {.repetition_penalty = 1.1}, false)->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, greedy_logprobs_0, {.temperature = 0, .logprobs = 0}, false)
    ->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, greedy_logprobs_5, {.temperature = 0, .logprobs = 5}, false)
    ->Apply(Arguments);
BENCHMARK_CAPTURE(Choose, all_text, kAll, false)->Apply(Arguments);

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
