#include "tests/engine/scheduler/fixture.h"

#include <utility>

#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {

std::unique_ptr<Model> MakeByteModel(bool softmax) {
  nlohmann::json config = {
      {"model_type", "linear_attn"}, {"vocab_size", 256},        {"hidden_size", 32},
      {"num_hidden_layers", 2},      {"num_heads", 2},           {"intermediate_size", 64},
      {"feature_map", "elu"},        {"norm_feature_map", true}, {"decay", {0.9, 0.99}}};
  if (softmax) {
    config["attn"] = {{"layers", {0, 1}},
                      {"num_heads", 2},
                      {"num_kv_heads", 2},
                      {"qkv_bias", false},
                      {"rope_theta", 10000.0}};
  }
  ConfigReader reader(config, "config.json");
  RandomWeights weights(/*seed=*/11);
  auto model = Model::Create(reader, weights);
  if (!model.ok()) ADD_FAILURE() << model.status();
  return *std::move(model);
}

void RecordingSink::Started(TurnStarted started) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(started_.has_value());
  started_ = std::move(started);
}

void RecordingSink::Chunk(TurnChunk chunk) {
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_.has_value());
    EXPECT_FALSE(Ended());
    EXPECT_EQ(chunk.index, static_cast<int32_t>(tokens_.size()));
    tokens_.insert(tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
    text_ += chunk.text;
  }
  changed_.notify_all();
}

void RecordingSink::Completed(TurnResult result) {
  {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(Ended());
    result_ = std::move(result);
  }
  changed_.notify_all();
}

void RecordingSink::Failed(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(Ended());
    failure_ = std::move(status);
  }
  changed_.notify_all();
}

bool RecordingSink::CanAccept() const {
  const std::lock_guard lock(mutex_);
  return tokens_.size() < capacity_;
}

void RecordingSink::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return Ended(); });
}

void RecordingSink::WaitForTokens(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tokens_.size() >= count || Ended(); });
}

void RecordingSink::SetCapacity(size_t capacity) {
  const std::lock_guard lock(mutex_);
  capacity_ = capacity;
}

std::vector<int32_t> RecordingSink::tokens() const {
  std::vector<int32_t> tokens;
  for (const SampledToken& sampled : sampled()) tokens.push_back(sampled.token);
  return tokens;
}

std::vector<SampledToken> RecordingSink::sampled() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

std::string RecordingSink::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

bool RecordingSink::started() const {
  const std::lock_guard lock(mutex_);
  return started_.has_value();
}

std::vector<StepStats> StepRecorder::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

int64_t StepRecorder::num_steps() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(steps_.size());
}

void StepRecorder::WaitForSteps(int64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return static_cast<int64_t>(steps_.size()) >= count; });
}

void StepRecorder::StepDone(const StepStats& step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
  }
  changed_.notify_all();
}

TestEngine::TestEngine(const EngineOptions& options, bool softmax, int64_t prefix_bytes,
                       std::unique_ptr<Tokenizer> tokenizer)
    : model_(MakeByteModel(softmax)), tokenizer_(std::move(tokenizer)) {
  if (tokenizer_ == nullptr) tokenizer_ = *Tokenizer::Load(testing::TempDir(), 256);
  sessions_ = std::make_unique<SessionStore>(
      SessionStoreOptions{.model_fingerprint = model_->info().fingerprint,
                          .state_bytes = model_->info().state_bytes,
                          .memory_bytes = int64_t{64} << 20});
  if (prefix_bytes > 0) {
    prefixes_ = std::make_unique<PrefixCache>(PrefixCache::Options{
        .state_bytes = model_->info().state_bytes, .memory_bytes = prefix_bytes});
  }
  engine_ = std::make_unique<Engine>(Engine::Parts{.model = model_.get(),
                                                   .tokenizer = tokenizer_.get(),
                                                   .sessions = sessions_.get(),
                                                   .prefixes = prefixes_.get(),
                                                   .observer = &recorder_},
                                     options);
}

std::shared_ptr<RequestHandle> TestEngine::Start(TurnRequest request,
                                                 std::shared_ptr<RecordingSink> sink) {
  auto handle = engine_->Submit(std::move(request), std::move(sink));
  EXPECT_TRUE(handle.ok()) << handle.status();
  return *std::move(handle);
}

std::shared_ptr<RecordingSink> TestEngine::Run(TurnRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  Start(std::move(request), sink);
  sink->Wait();
  return sink;
}

TurnRequest SeededTurn(std::string text, int max_new_tokens, uint64_t seed) {
  TurnRequest request;
  request.prompt.text = std::move(text);
  request.sampling.seed = seed;
  request.seed_given = true;
  request.sampling.max_new_tokens = max_new_tokens;
  return request;
}

TurnRequest SessionTurn(std::string id, std::string text, int max_new_tokens, uint64_t seed) {
  TurnRequest request = SeededTurn(std::move(text), max_new_tokens, seed);
  request.session = SessionStore::BeginOptions{};
  request.session->id = std::move(id);
  request.session->create_if_missing = true;
  return request;
}

}  // namespace fermata
