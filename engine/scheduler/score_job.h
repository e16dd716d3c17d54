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
  int64_t prompt_tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  int64_t PromptLeft() const override;
  JobStep Next(int64_t prompt_tokens) override;
  void TakeLogits(int64_t row, std::span<const float> logits) override;
  void Advance() override;
  bool done() const override { return done_; }
  void Stop(FinishReason reason) override;
  void Fail(absl::Status status) override;

 private:
  void Complete();
  // Whether the next step scores: what it consumes is followed by tokens to score.
  bool Scores() const { return consumed_ + 1 >= first_scored_; }

  const ScoreRequest request_;
  const Engine::ScoreCallback callback_;
  const Parts parts_;

  std::vector<int32_t> tokens_;  // Context, then input.
  int64_t first_scored_ = 0;     // Index in tokens_ of the first token that gets a log-probability.
  int64_t consumed_ = 0;
  std::vector<SampledToken> step_;  // Of the step under way, for each of its rows of logits.
  int64_t feeding_ = 0;             // Tokens of the step under way.
  ScoreResult result_;
  bool done_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_SCORE_JOB_H_
