// What each mixer's three forms cost, by the length of the run, with softmax attention of the same
// shape beside them: where linear attention begins to win. One sequence, one layer, random weights.
//
//   mixer_bench --benchmark_filter='gla/.*'

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/parallel.h"
#include "engine/mixers/mixer.h"
#include "nlohmann/json.hpp"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kHidden = 768;
constexpr int64_t kLongest = 16384;
// The parallel form holds all pairs of tokens: 2 GiB a head at 16,384.
constexpr int64_t kLongestParallel = 4096;

// The smallest of published shapes: 768 wide, heads of 64 where the mixer's config has no other
// default.
const std::map<std::string, nlohmann::json>& Configs() {
  static const std::map<std::string, nlohmann::json> configs = {
      {"delta_net", {{"num_heads", 12}}},
      {"gated_delta_net", {{"num_heads", 6}, {"head_dim", 64}, {"expand_v", 2.0}}},
      {"gla", {{"num_heads", 4}}},
      {"linear_attn", {{"num_heads", 12}, {"feature_map", "elu"}, {"norm_feature_map", true}}},
      {"mamba2", {{"n_groups", 1}}},
      {"retention", {{"num_heads", 3}}},
      {"rwkv4", nlohmann::json::object()},
      {"rwkv5", {{"num_heads", 12}}},
      {"rwkv6", {{"num_heads", 12}, {"expand_k", 1.0}, {"expand_v", 1.0}}},
      {"rwkv7", {{"head_dim", 64}}},
      {"softmax_attn", {{"num_heads", 12}}},
  };
  return configs;
}

void Run(benchmark::State& bench, const std::string& name, const nlohmann::json& config,
         Form form) {
  ConfigReader reader(config, "config.json");
  RandomWeights weights(/*seed=*/1);
  const auto mixer = CreateMixer(name, {.hidden_size = kHidden,
                                        .layer = 0,
                                        .config = &reader,
                                        .weights = WeightScope(weights, "m.")})
                         .value();
  const int64_t count = bench.range(0);
  const std::vector<float> x = RandomNormals(2, count * kHidden);
  std::vector<float> out(x.size());
  std::vector<float> value_residual(count * mixer->value_residual_floats());
  Arena arena;
  for (auto _ : bench) {
    std::vector<float> state(StateFloats(*mixer));
    std::vector<float> cache;
    const SequenceRows rows{.begin = 0, .count = count, .state = state.data(), .cache = &cache};
    mixer->Forward({&rows, 1}, x.data(), count, out.data(),
                   {.form = form, .arena = &arena, .value_residual = value_residual.data()});
    benchmark::DoNotOptimize(out.data());
  }
  bench.SetItemsProcessed(bench.iterations() * count);
}

void RegisterAll() {
  for (const auto& [name, config] : Configs()) {
    for (const Form form : {Form::kRecurrent, Form::kChunkwise, Form::kParallel}) {
      const std::string benchmark = name + "/" + std::string(FormName(form));
      benchmark::RegisterBenchmark(benchmark.c_str(),
                                   [name = name, config = config, form](benchmark::State& bench) {
                                     Run(bench, name, config, form);
                                   })
          ->RangeMultiplier(4)
          ->Range(64, form == Form::kParallel ? kLongestParallel : kLongest)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  fermata::SetComputeThreads(1);  // So that processor time says it all, whatever else runs.
  benchmark::Initialize(&argc, argv);
  fermata::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
