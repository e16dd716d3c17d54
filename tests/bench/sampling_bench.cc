// What choosing one token costs, by size of the vocabulary and kind of truncation.

#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/sampling/sampler.h"

namespace fermata {
namespace {

void Run(benchmark::State& state, const SamplingParams& params) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(state.range(0)));
  for (float& logit : logits) logit = normal(random);
  SamplerMemory memory;
  for (int i = 0; i < 256; ++i) memory.Append(i * 7 % static_cast<int>(logits.size()));
  int64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(Sample(logits, params, memory, ++position, true));
}

void BM_Greedy(benchmark::State& state) { Run(state, {.temperature = 0}); }
void BM_Softmax(benchmark::State& state) { Run(state, {}); }
void BM_TopK(benchmark::State& state) { Run(state, {.top_k = 40}); }
void BM_TopP(benchmark::State& state) { Run(state, {.top_p = 0.95}); }
void BM_All(benchmark::State& state) {
  Run(state, {.temperature = 0.8,
              .top_k = 100,
              .top_p = 0.95,
              .min_p = 0.02,
              .repetition_penalty = 1.1,
              .logprobs = 5});
}

BENCHMARK(BM_Greedy)->Arg(256)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Softmax)->Arg(256)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_TopK)->Arg(256)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_TopP)->Arg(256)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_All)->Arg(256)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
