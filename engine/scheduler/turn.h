#ifndef FERMATA_ENGINE_SCHEDULER_TURN_H_
#define FERMATA_ENGINE_SCHEDULER_TURN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_matcher.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/observer.h"
#include "engine/scheduler/prefix.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// One turn: consumes the pending token and the prompt, then samples until something ends it, and
// commits the session.
//
// The sequence is [pending token] prompt [new tokens]. The state has consumed all of it but the
// last token at every step's end, which is when the turn may be stopped.
class Turn : public Job, public std::enable_shared_from_this<Turn> {
 public:
  struct Parts {
    const Model* model = nullptr;
    const Tokenizer* tokenizer = nullptr;
    PrefixCache* prefixes = nullptr;  // Null: none is kept.
    Form prefill_form = Form::kRecurrent;
    EngineObserver* observer = nullptr;
    Hooks hooks;
  };
  // `lease` is invalid for a turn without a session.
  Turn(TurnRequest request, std::shared_ptr<TurnSink> sink, SessionStore::Lease lease,
       const Parts& parts);

  absl::Status Fetch() override { return lease_.Fetch(); }
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
  void SendStarted();
  // Whether stop tokens and stop strings end the turn yet.
  bool Armed() const { return generated_ >= sampling_.min_new_tokens; }
  // Takes up the token that was sampled, sends what it completes, and ends the turn if it must.
  void TakeUp(SampledToken sampled);
  // Whether `token` ends the turn by itself.
  bool IsStopToken(int32_t token) const;
  // Sends the newest token with the text that may leave.
  void Send(SampledToken token, std::string text);
  void RecordTokenTime();
  // Commits the session and tells the client, now or when the commit is durable. The turn's text
  // must have been sent.
  void Complete(FinishReason reason);
  void TellCompleted(TurnResult result);
  void TellFailed(absl::Status status);
  TurnTimings Timings() const;

  const TurnRequest request_;
  const std::shared_ptr<TurnSink> sink_;
  const Parts parts_;
  SessionStore::Lease lease_;
  std::optional<Prefix> prefix_;  // Of a sequence that begins with this turn.
  SamplingParams sampling_;
  IncrementalDecoder decoder_;
  StopMatcher stops_;

  SequenceState* state_ = nullptr;  // The engine's; set while the turn runs.
  SamplerMemory memory_;
  std::vector<int32_t> tokens_;  // [pending] prompt, then only the newest token.
  int32_t prompt_tokens_ = 0;
  int32_t cached_tokens_ = 0;
  int64_t consumed_ = 0;                 // Of tokens_.
  int64_t feeding_ = 0;                  // Tokens of the step under way.
  std::optional<SampledToken> sampled_;  // In the step under way.
  int32_t generated_ = 0;
  std::string matched_stop_;
  bool done_ = false;

  std::optional<Clock::time_point> start_;  // Left the queue.
  std::optional<Clock::time_point> first_token_;
  std::optional<Clock::time_point> last_token_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_TURN_H_
