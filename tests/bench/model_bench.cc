// What a model costs: decoding by batch size, prefill by form and length, and the softmax baseline of
// the same shape beside it. Random weights.

#include <cstdint>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/model/model.h"
#include "nlohmann/json.hpp"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kVocab = 4096;

// 12 layers of 768, as the smallest of published families have them; 64 per head.
const Model& ModelOf(bool softmax) {
  static const auto make = [](bool with_softmax) {
    nlohmann::json config = {
        {"model_type", "linear_attn"}, {"vocab_size", kVocab},     {"hidden_size", 768},
        {"num_hidden_layers", 12},     {"num_heads", 12},          {"intermediate_size", 2048},
        {"feature_map", "elu"},        {"norm_feature_map", true}, {"tie_word_embeddings", true}};
    if (with_softmax) {
      config["model_type"] = "transformer";
      config.erase("feature_map");
      config.erase("norm_feature_map");
    }
    ConfigReader reader(config, "config.json");
    RandomWeights weights(/*seed=*/1);
    return *Model::Create(reader, weights);
  };
  static const std::unique_ptr<Model> linear = make(false);
  static const std::unique_ptr<Model> baseline = make(true);
  return softmax ? *baseline : *linear;
}

std::vector<int32_t> SomeTokens(int64_t count) {
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(i * 7919 % kVocab);
  return tokens;
}

// A step of `batch` sequences that have all consumed `position` tokens.
void Decode(benchmark::State& bench, bool softmax) {
  const Model& model = ModelOf(softmax);
  const int64_t batch = bench.range(0);
  const int64_t position = bench.range(1);
  Model::Workspace workspace;
  std::vector<SequenceState> states;
  const std::vector<int32_t> prompt = SomeTokens(position);
  for (int64_t i = 0; i < batch; ++i) {
    states.push_back(model.NewState());
    const SequenceStep step{
        .tokens = prompt, .state = &states.back(), .logits = SequenceStep::Logits::kNone};
    model.Forward({&step, 1}, Form::kRecurrent, workspace);
  }
  const std::vector<int32_t> token = SomeTokens(1);
  std::vector<SequenceStep> steps;
  for (SequenceState& state : states) steps.push_back({.tokens = token, .state = &state});
  for (auto _ : bench) {
    benchmark::DoNotOptimize(model.Forward(steps, Form::kRecurrent, workspace).data());
  }
  bench.SetItemsProcessed(bench.iterations() * batch);
  bench.counters["state_bytes"] =
      static_cast<double>(states[0].fixed.bytes()) + static_cast<double>(states[0].cache_bytes());
}

void Prefill(benchmark::State& bench, bool softmax, Form form) {
  const Model& model = ModelOf(softmax);
  const std::vector<int32_t> prompt = SomeTokens(bench.range(0));
  Model::Workspace workspace;
  SequenceState state = model.NewState();
  for (auto _ : bench) {
    state.Clear();
    const SequenceStep step{.tokens = prompt, .state = &state};
    benchmark::DoNotOptimize(model.Forward({&step, 1}, form, workspace).data());
  }
  bench.SetItemsProcessed(bench.iterations() * bench.range(0));
}

const std::vector<int64_t> kBatches = {1, 4, 16, 64};
const std::vector<int64_t> kPositions = {64, 1024};

BENCHMARK_CAPTURE(Decode, linear, false)
    ->ArgsProduct({kBatches, kPositions})
    ->ArgNames({"batch", "position"})
    ->UseRealTime();
BENCHMARK_CAPTURE(Decode, softmax, true)
    ->ArgsProduct({kBatches, kPositions})
    ->ArgNames({"batch", "position"})
    ->UseRealTime();
BENCHMARK_CAPTURE(Prefill, linear_recurrent, false, Form::kRecurrent)
    ->RangeMultiplier(4)
    ->Range(64, 4096)
    ->UseRealTime();
BENCHMARK_CAPTURE(Prefill, linear_chunkwise, false, Form::kChunkwise)
    ->RangeMultiplier(4)
    ->Range(64, 4096)
    ->UseRealTime();
BENCHMARK_CAPTURE(Prefill, softmax, true, Form::kRecurrent)
    ->RangeMultiplier(4)
    ->Range(64, 4096)
    ->UseRealTime();

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
