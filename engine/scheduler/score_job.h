#ifndef FERMATA_ENGINE_SCHEDULER_SCORE_JOB_H_
#define FERMATA_ENGINE_SCHEDULER_SCORE_JOB_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/engine.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/observer.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Feeds a text from a fresh state and notes what the model thought of each next token.
class ScoreJob : public Job {
 public:
  struct Parts {
    const Tokenizer* tokenizer = nullptr;
    EngineObserver* observer = nullptr;
    Hooks hooks;
  };
  ScoreJob(ScoreRequest request, Engine::ScoreCallback callback, const Parts& parts);

  absl::Status Prepare() override;
  absl::Status Start(SequenceState* state) override;
  JobStep Next(int64_t prompt_budget) override;
  void Advance(std::span<const float> logits) override;
  bool done() const override { return done_; }
  void Stop(FinishReason reason) override;
  void Fail(absl::Status status) override;

 private:
  void Complete();

  const ScoreRequest request_;
  const Engine::ScoreCallback callback_;
  const Parts parts_;

  std::vector<int32_t> tokens_;  // Context, then input.
  int64_t first_scored_ = 0;     // Index in tokens_ of the first token that gets a log-probability.
  int64_t consumed_ = 0;
  int64_t feeding_ = 0;
  ScoreResult result_;
  bool done_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_SCORE_JOB_H_
