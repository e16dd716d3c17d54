// What the engine makes of a model: tokens a second with `batch` turns decoding, and where a step's time
// goes: the model's forward pass, choosing the tokens, and the rest (text, stop strings, delivery,
// queue), as shares of the time that steps take. And how long the others' tokens wait while a prompt
// of `prompt` tokens is read.
//
// The model is the one in $FERMATA_MODEL_DIR, held as $FERMATA_WEIGHTS says (auto where it does not),
// or else one of 12 layers of 768, 65,536 tokens and random float32 weights.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/config_reader.h"
#include "engine/scheduler/engine.h"
#include "nlohmann/json.hpp"
#include "tests/random_weights.h"

namespace fermata {
namespace {

class StepTimes : public EngineObserver {
 public:
  void StepDone(const StepStats& step) override {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
  }
  void TokenSampled(absl::Duration) override {}
  void FirstToken(absl::Duration) override {}
  void TurnCompleted(const std::string&, const TurnResult&) override {}
  void RequestFailed(const std::string&, const absl::Status&) override {}
  void ScoreCompleted(const std::string&, int64_t) override {}

  std::vector<StepStats> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(steps_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<StepStats> steps_;
};

class WaitingSink : public TurnSink {
 public:
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::max();

  void Started(TurnStarted) override {}
  void Chunk(TurnChunk chunk) override {
    const std::lock_guard lock(mutex_);
    tokens_ += static_cast<int64_t>(chunk.tokens.size());
    if (tokens_ < awaited_) return;  // Waking costs more than all else here.
    awaited_ = kNothing;
    changed_.notify_all();
  }
  void Completed(TurnResult) override { End(); }
  void Failed(absl::Status) override { End(); }
  bool CanAccept() const override { return true; }

  // Waits for `count` more, and returns how many have come since the last time.
  int64_t WaitForTokens(int64_t count) {
    std::unique_lock lock(mutex_);
    awaited_ = told_ + count;
    changed_.wait(lock, [&] { return tokens_ >= told_ + count; });
    return tokens_ - std::exchange(told_, tokens_);
  }
  void WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }

 private:
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t tokens_ = 0;
  int64_t told_ = 0;
  int64_t awaited_ = kNothing;
  bool ended_ = false;
};

// Tokens that stand for their numbers: "17 ".
class NumberTokenizer : public Tokenizer {
 public:
  explicit NumberTokenizer(int64_t size) {
    for (int64_t id = 0; id < size; ++id) words_.push_back(std::to_string(id) + " ");
  }
  std::string_view kind() const override { return "numbers"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(words_.size()); }
  std::string_view TokenBytes(int32_t id) const override { return words_[id]; }
  bool IsSpecial(int32_t) const override { return false; }

 private:
  std::vector<int32_t> DoEncode(std::string_view, bool, TextPlace) const override { return {}; }

  std::vector<std::string> words_;
};

struct Server {
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<SessionStore> sessions;
  StepTimes times;
};

std::unique_ptr<Server> MakeServer(std::unique_ptr<Model> model,
                                   std::unique_ptr<Tokenizer> tokenizer) {
  auto server = std::make_unique<Server>();
  server->model = std::move(model);
  const ModelInfo& info = server->model->info();
  server->tokenizer = std::move(tokenizer);
  server->sessions =
      std::make_unique<SessionStore>(SessionStoreOptions{.model_fingerprint = info.fingerprint,
                                                         .state_bytes = info.state_bytes,
                                                         .memory_bytes = int64_t{64} << 20});
  return server;
}

Server& ServerFromEnvironment() {
  static const std::unique_ptr<Server> server = [] {
    if (const char* directory = std::getenv("FERMATA_MODEL_DIR")) {
      const char* weights = std::getenv("FERMATA_WEIGHTS");
      LoadOptions options{.weights = std::nullopt};
      if (weights != nullptr) options.weights = WeightTypeFromName(weights);
      std::unique_ptr<Model> model = Model::Load(directory, options).value();
      auto tokenizer = Tokenizer::Load(directory, model->info().vocab_size).value();
      return MakeServer(std::move(model), std::move(tokenizer));
    }
    const nlohmann::json config = {
        {"model_type", "linear_attn"}, {"vocab_size", 65536},      {"hidden_size", 768},
        {"num_hidden_layers", 12},     {"num_heads", 12},          {"intermediate_size", 2048},
        {"feature_map", "elu"},        {"norm_feature_map", true}, {"tie_word_embeddings", true}};
    ConfigReader reader(config, "config.json");
    RandomWeights weights(/*seed=*/1);
    return MakeServer(*Model::Create(reader, weights), std::make_unique<NumberTokenizer>(65536));
  }();
  return *server;
}

TurnRequest Request(int64_t prompt_tokens, int new_tokens) {
  TurnRequest request;
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt.token_ids.push_back(static_cast<int32_t>(1 + i * 7 % 200));
  }
  request.sampling.max_new_tokens = new_tokens;
  request.sampling.stop = {"a stop string that does not come"};
  request.ignore_eos = true;
  return request;
}

struct Turns {
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  std::vector<std::shared_ptr<RequestHandle>> handles;

  void Start(Engine& engine, const TurnRequest& request) {
    sinks.push_back(std::make_shared<WaitingSink>());
    handles.push_back(*engine.Submit(request, sinks.back()));
  }
  void Cancel() {
    for (const auto& handle : handles) handle->Cancel();
    for (const auto& sink : sinks) sink->WaitForEnd();
  }
};

constexpr int kEndless = 1 << 20;

void Decode(benchmark::State& bench) {
  Server& server = ServerFromEnvironment();
  const int64_t batch = bench.range(0);
  const int64_t tokens = 16;
  Engine engine({.model = server.model.get(),
                 .tokenizer = server.tokenizer.get(),
                 .sessions = server.sessions.get(),
                 .observer = &server.times},
                {.max_running = static_cast<int>(batch)});
  Turns turns;
  for (int64_t i = 0; i < batch; ++i) turns.Start(engine, Request(1, kEndless));
  for (const auto& sink : turns.sinks) sink->WaitForTokens(tokens);
  turns.sinks.front()->WaitForTokens(1);
  server.times.Take();
  int64_t count = 0;
  for (auto _ : bench) count += turns.sinks.front()->WaitForTokens(tokens);
  StepStats sum;
  const std::vector<StepStats> steps = server.times.Take();
  for (const StepStats& step : steps) {
    sum.duration += step.duration;
    sum.forward += step.forward;
    sum.choosing += step.choosing;
  }
  turns.Cancel();
  bench.SetItemsProcessed(count * batch);
  bench.counters["step_ms"] =
      absl::ToDoubleMilliseconds(sum.duration) / static_cast<double>(steps.size());
  const auto percent = [&sum](absl::Duration part) {
    return 100 * absl::FDivDuration(part, sum.duration);
  };
  bench.counters["forward_%"] = percent(sum.forward);
  bench.counters["choosing_%"] = percent(sum.choosing);
  bench.counters["rest_%"] = percent(sum.duration - sum.forward - sum.choosing);
}

// The longest of the steps that decode while one long prompt is read, in milliseconds.
void LongPrompt(benchmark::State& bench) {
  Server& server = ServerFromEnvironment();
  const int64_t target_ms = bench.range(1);
  Engine engine({.model = server.model.get(),
                 .tokenizer = server.tokenizer.get(),
                 .sessions = server.sessions.get(),
                 .observer = &server.times},
                {.step_time_target =
                     target_ms == 0 ? absl::InfiniteDuration() : absl::Milliseconds(target_ms)});
  Turns streams;
  for (int64_t i = 0; i < bench.range(0); ++i) streams.Start(engine, Request(1, kEndless));
  for (const auto& sink : streams.sinks) sink->WaitForTokens(20);
  server.times.Take();
  std::vector<double> milliseconds;
  int64_t decoded = 0;
  for (auto _ : bench) {
    Turns prompt;
    prompt.Start(engine, Request(bench.range(2), 1));
    prompt.sinks.front()->WaitForEnd();
    for (const StepStats& step : server.times.Take()) {
      if (step.prompt_tokens > 0) milliseconds.push_back(absl::ToDoubleMilliseconds(step.duration));
      decoded += step.decode_tokens;
    }
  }
  streams.Cancel();
  std::sort(milliseconds.begin(), milliseconds.end());
  bench.counters["step_p50_ms"] = milliseconds[milliseconds.size() / 2];
  bench.counters["step_p99_ms"] = milliseconds[milliseconds.size() * 99 / 100];
  bench.counters["decoded"] = static_cast<double>(decoded);
  bench.counters["tokens_a_step"] = static_cast<double>(bench.range(2) * bench.iterations()) /
                                    static_cast<double>(milliseconds.size());
}

BENCHMARK(Decode)
    ->Arg(1)
    ->Arg(8)
    ->Arg(16)
    ->Arg(64)
    ->Arg(128)
    ->ArgName("batch")
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(LongPrompt)
    ->ArgsProduct({{1, 16}, {0, 25, 50, 100}, {2048}})
    ->ArgNames({"streams", "target_ms", "prompt"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
