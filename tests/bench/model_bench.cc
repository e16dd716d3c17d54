// What a model costs: decoding by batch size and position, prefill by length and form.
//
//   model_bench --benchmark_filter='rwkv7/(f32|int8)/decode/'
//   model_bench --model_dir=DIR --weights=int8 --threads=2 --benchmark_filter=decode/
//
// Without --model_dir: 12 layers of 768, 65,536 tokens, random weights, and softmax attention of the
// same shape at several positions. --weights is auto where it is not given, --threads one a core.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include "benchmark/benchmark.h"
#include "engine/base/parallel.h"
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

// A model to measure, and how to come by it.
struct Subject {
  std::string name;
  std::function<std::unique_ptr<Model>()> make;
};

struct Loaded {
  std::string name;
  std::unique_ptr<Model> model;
  std::map<int64_t, SequenceState> states;  // By position, of models whose state does not grow.
};

// The last one asked for is kept: benchmarks of one model follow one another.
Loaded& Load(const Subject& subject) {
  static Loaded loaded;
  if (loaded.model == nullptr || loaded.name != subject.name) {
    loaded = {};
    loaded = {.name = subject.name, .model = subject.make()};
  }
  return loaded;
}

Subject DrawnSubject(const std::string& family, WeightType type) {
  return {.name = family + "/" + std::string(WeightTypeName(type)), .make = [=] {
            ConfigReader reader(ConfigOf(family), "config.json");
            TypedWeights weights(type);
            return Model::Create(reader, weights).value();
          }};
}

std::vector<int32_t> SomeTokens(const Model& model, int64_t count) {
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>(i * 7919 % model.info().vocab_size);
  }
  return tokens;
}

void Feed(const Model& model, int64_t count, SequenceState& state, Model::Workspace& workspace) {
  constexpr int64_t kAtOnce = 256;  // As the server reads prompts.
  const std::vector<int32_t> prompt = SomeTokens(model, std::min(count, kAtOnce));
  for (int64_t done = 0; done < count; done += kAtOnce) {
    const SequenceStep step{.tokens = std::span(prompt).first(std::min(kAtOnce, count - done)),
                            .state = &state,
                            .logits = SequenceStep::Logits::kNone};
    model.Forward({&step, 1}, Form::kRecurrent, workspace);
  }
}

SequenceState Copy(const Model& model, const SequenceState& state) {
  SequenceState copy = model.NewState();
  std::ranges::copy(state.fixed, copy.fixed.begin());
  copy.position = state.position;
  return copy;
}

// Having consumed `position` tokens. A KV cache is filled with any numbers instead, which cost a step
// the same: to read so many tokens would take softmax attention a quarter of an hour.
SequenceState StateAt(Loaded& loaded, int64_t position, Model::Workspace& workspace) {
  const Model& model = *loaded.model;
  if (model.info().fixed_size_state) {
    auto& states = loaded.states;
    if (!states.contains(position)) {
      const auto after = states.lower_bound(position);
      SequenceState state =
          after == states.begin() ? model.NewState() : Copy(model, std::prev(after)->second);
      Feed(model, position - state.position, state, workspace);
      states.emplace(position, std::move(state));
    }
    return Copy(model, states.at(position));
  }
  SequenceState state = model.NewState();
  Feed(model, 1, state, workspace);
  for (std::vector<float>& cache : state.caches) {
    const size_t floats = cache.size();
    cache.reserve((position + 1) * floats);
    for (size_t i = floats; i < position * floats; ++i) {
      cache.push_back(static_cast<float>(i * 7919 % 1024) / 1024 - 0.5f);
    }
  }
  state.position = position;
  return state;
}

// A step of `batch` sequences that have all consumed `position` tokens.
void Decode(benchmark::State& bench, Loaded& loaded, int64_t batch, int64_t position) {
  const Model& model = *loaded.model;
  Model::Workspace workspace;
  std::vector<SequenceState> states;
  for (int64_t i = 0; i < batch; ++i) states.push_back(StateAt(loaded, position, workspace));
  const double state_bytes =
      static_cast<double>(states[0].fixed.bytes()) + static_cast<double>(states[0].cache_bytes());
  std::vector<size_t> floats;  // Of one sequence's caches.
  for (const std::vector<float>& cache : states[0].caches) floats.push_back(cache.size());
  const std::vector<int32_t> token = SomeTokens(model, 1);
  std::vector<SequenceStep> steps;
  for (SequenceState& state : states) steps.push_back({.tokens = token, .state = &state});
  for (auto _ : bench) {
    benchmark::DoNotOptimize(model.Forward(steps, Form::kRecurrent, workspace).data());
    for (SequenceState& state : states) {
      state.position = position;
      for (size_t i = 0; i < floats.size(); ++i) state.caches[i].resize(floats[i]);
    }
  }
  bench.SetItemsProcessed(bench.iterations() * batch);
  bench.counters["state_bytes"] = state_bytes;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  bench.counters["peak_bytes"] = 1024.0 * static_cast<double>(usage.ru_maxrss);
}

void Prefill(benchmark::State& bench, const Model& model, int64_t count, Form form) {
  const std::vector<int32_t> prompt = SomeTokens(model, count);
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

void RegisterPositions(const Subject& subject) {
  for (const int64_t position : {128, 512, 2048, 8192, 32768}) {
    Register(subject.name + "/position/" + std::to_string(position),
             [=](benchmark::State& bench) { Decode(bench, Load(subject), 1, position); });
  }
}

void RegisterModel(const Subject& subject) {
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    Register(subject.name + "/decode/" + std::to_string(batch),
             [=](benchmark::State& bench) { Decode(bench, Load(subject), batch, 1); });
  }
  for (const int64_t count : {128, 512, 2048, 8192}) {
    for (const Form form : {Form::kRecurrent, Form::kChunkwise}) {
      Register(
          subject.name + "/prefill_" + std::string(FormName(form)) + "/" + std::to_string(count),
          [=](benchmark::State& bench) { Prefill(bench, *Load(subject).model, count, form); });
    }
  }
}

void RegisterDrawn() {
  for (const char* family : {"linear_attn", "retnet", "rwkv7"}) {
    for (const auto& [type, name] : kWeightTypeNames) RegisterModel(DrawnSubject(family, type));
  }
  // The picture of why this exists: cost and memory by position.
  for (const char* family : {"linear_attn", "transformer"}) {
    RegisterPositions(DrawnSubject(family, WeightType::kBf16));
  }
}

[[noreturn]] void Die(const std::string& why) {
  std::cerr << why << "\n";
  std::exit(1);
}

void RegisterDirectory(const std::string& path, const std::string& weights) {
  const Subject subject{.name = std::filesystem::path(path).filename().string() + "/" + weights,
                        .make = [=] {
                          const std::optional<WeightType> type = WeightTypeFromName(weights);
                          if (!type && weights != "auto") Die("there is no --weights=" + weights);
                          auto model = Model::Load(path, {.weights = type});
                          if (!model.ok()) Die(model.status().ToString());
                          return *std::move(model);
                        }};
  RegisterModel(subject);
  RegisterPositions(subject);
}

// The value of `--name=value`, if it is among the arguments.
std::optional<std::string> FlagOf(const std::vector<std::string>& arguments,
                                  const std::string& name) {
  const std::string start = "--" + name + "=";
  for (const std::string& argument : arguments) {
    if (argument.starts_with(start)) return argument.substr(start.size());
  }
  return std::nullopt;
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const auto threads = fermata::FlagOf(arguments, "threads")) {
    fermata::SetComputeThreads(std::stoi(*threads));
  }
  if (const auto path = fermata::FlagOf(arguments, "model_dir")) {
    fermata::RegisterDirectory(*path, fermata::FlagOf(arguments, "weights").value_or("auto"));
  } else {
    fermata::RegisterDrawn();
  }
  benchmark::RunSpecifiedBenchmarks();
}
