#ifndef FERMATA_TESTS_ENGINE_SCHEDULER_FIXTURE_H_
#define FERMATA_TESTS_ENGINE_SCHEDULER_FIXTURE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler/engine.h"

namespace fermata {

// A small linear-attention model with random weights over bytes, or with softmax layers instead.
std::unique_ptr<Model> MakeByteModel(bool softmax = false);

// Keeps what a turn sends. `capacity` is how many tokens it takes before it says that it is full.
class RecordingSink : public TurnSink {
 public:
  void Started(TurnStarted started) override;
  void Chunk(TurnChunk chunk) override;
  void Completed(TurnResult result) override;
  void Failed(absl::Status status) override;
  bool CanAccept() const override;

  // Waits for the end of the turn.
  void Wait();
  // Waits until `count` tokens have come, or the end.
  void WaitForTokens(size_t count);
  void SetCapacity(size_t capacity);

  // What has come so far.
  std::vector<int32_t> tokens() const;
  std::vector<SampledToken> sampled() const;
  std::string text() const;
  bool started() const;
  // After Wait:
  const TurnStarted& start() const { return *started_; }
  const TurnResult& result() const { return *result_; }
  const absl::Status& failure() const { return *failure_; }
  bool completed() const { return result_.has_value(); }

 private:
  bool Ended() const { return result_.has_value() || failure_.has_value(); }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t capacity_ = SIZE_MAX;
  std::optional<TurnStarted> started_;
  std::vector<SampledToken> tokens_;
  std::string text_;
  std::optional<TurnResult> result_;
  std::optional<absl::Status> failure_;
};

// Keeps what the steps did.
class StepRecorder : public EngineObserver {
 public:
  std::vector<StepStats> steps() const;
  int64_t num_steps() const;
  // Waits until so many steps are done.
  void WaitForSteps(int64_t count);

  void StepDone(const StepStats& step) override;
  void TokenSampled(absl::Duration) override {}
  void FirstToken(absl::Duration) override {}
  void TurnCompleted(const std::string&, const TurnResult&) override {}
  void RequestFailed(const std::string&, const absl::Status&) override {}
  void ScoreCompleted(const std::string&, int64_t) override {}

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepStats> steps_;
};

// A model, its sessions and an engine. No beginnings of sequences are kept unless they are given
// memory; tokens are bytes unless there is a tokenizer.
class TestEngine {
 public:
  explicit TestEngine(const EngineOptions& options = {}, bool softmax = false,
                      int64_t prefix_bytes = 0, std::unique_ptr<Tokenizer> tokenizer = nullptr);

  // A turn that is not waited for. Dies if it is refused.
  std::shared_ptr<RequestHandle> Start(TurnRequest request, std::shared_ptr<RecordingSink> sink);
  // A turn from its beginning to its end.
  std::shared_ptr<RecordingSink> Run(TurnRequest request);

  Engine& engine() { return *engine_; }
  SessionStore& sessions() { return *sessions_; }
  PrefixCache& prefixes() { return *prefixes_; }
  StepRecorder& recorder() { return recorder_; }
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<PrefixCache> prefixes_;
  StepRecorder recorder_;
  std::unique_ptr<Engine> engine_;
};

// A turn with a seed, so that it can be repeated.
TurnRequest SeededTurn(std::string text, int max_new_tokens, uint64_t seed = 1);
// The same on a session, which is created when it is missing.
TurnRequest SessionTurn(std::string id, std::string text, int max_new_tokens, uint64_t seed = 1);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SCHEDULER_FIXTURE_H_
