// What a model of 0.1B costs: decoding by batch size and weight type, prefill by length and form, and
// softmax attention of the same shape at several positions. 12 layers of 768, 65,536 tokens, random
// weights.
//
//   model_bench --benchmark_filter='rwkv7/(f32|int8)/decode/'

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/model/model.h"
#include "engine/model/random_weights.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kVocab = 65536;

// The shapes of the smallest published checkpoints of each family.
Json ConfigOf(const std::string& family) {
  Json config = {{"model_type", family},        {"vocab_size", kVocab}, {"hidden_size", 768},
                 {"num_hidden_layers", 12},     {"num_heads", 12},      {"head_dim", 64},
                 {"tie_word_embeddings", false}};
  if (family == "linear_attn") {
    config.update({{"feature_map", "elu"}, {"norm_feature_map", true}});
  }
  if (family == "retnet") config["num_heads"] = 3;
  if (family == "rwkv7") config.update({{"hidden_ratio", 4}, {"fuse_norm", false}});
  return config;
}

class TypedWeights : public DrawnWeights {
 public:
  explicit TypedWeights(WeightType type) : DrawnWeights(/*seed=*/1), type_(type) {}
  WeightType matrix_type(std::string_view) const override { return type_; }

 private:
  WeightType type_;
};

// The last model asked for is kept: benchmarks of one follow one another.
const Model& ModelOf(const std::string& family, WeightType type) {
  static std::unique_ptr<Model> model;
  static std::pair<std::string, WeightType> made;
  if (model == nullptr || made != std::pair(family, type)) {
    model = nullptr;
    ConfigReader reader(ConfigOf(family), "config.json");
    TypedWeights weights(type);
    model = Model::Create(reader, weights).value();
    made = {family, type};
  }
  return *model;
}

std::vector<int32_t> SomeTokens(int64_t count) {
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(i * 7919 % kVocab);
  return tokens;
}

// A step of `batch` sequences that have all consumed `position` tokens.
void Decode(benchmark::State& bench, const Model& model, int64_t batch, int64_t position) {
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

void Prefill(benchmark::State& bench, const Model& model, int64_t count, Form form) {
  const std::vector<int32_t> prompt = SomeTokens(count);
  Model::Workspace workspace;
  SequenceState state = model.NewState();
  for (auto _ : bench) {
    state.Clear();
    const SequenceStep step{.tokens = prompt, .state = &state};
    benchmark::DoNotOptimize(model.Forward({&step, 1}, form, workspace).data());
  }
  bench.SetItemsProcessed(bench.iterations() * count);
}

template <typename Body>
void Register(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMillisecond);
}

void RegisterModel(const std::string& family, WeightType type) {
  const std::string name = family + "/" + std::string(WeightTypeName(type)) + "/";
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    Register(name + "decode/" + std::to_string(batch),
             [=](benchmark::State& bench) { Decode(bench, ModelOf(family, type), batch, 1); });
  }
  for (const int64_t count : {128, 512, 2048, 8192}) {
    for (const Form form : {Form::kRecurrent, Form::kChunkwise}) {
      Register(
          name + "prefill_" + std::string(FormName(form)) + "/" + std::to_string(count),
          [=](benchmark::State& bench) { Prefill(bench, ModelOf(family, type), count, form); });
    }
  }
}

// The picture of why this exists: cost and memory by position.
void RegisterPositions(const std::string& family) {
  for (const int64_t position : {128, 512, 2048, 8192, 32768}) {
    Register(family + "/bf16/position/" + std::to_string(position), [=](benchmark::State& bench) {
      Decode(bench, ModelOf(family, WeightType::kBf16), 1, position);
    });
  }
}

void RegisterAll() {
  for (const char* family : {"linear_attn", "retnet", "rwkv7"}) {
    for (const auto& [type, name] : kWeightTypeNames) RegisterModel(family, type);
  }
  RegisterPositions("linear_attn");
  RegisterPositions("transformer");
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  fermata::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
