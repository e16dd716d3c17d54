#ifndef FERMATA_ENGINE_SCHEDULER_JOB_H_
#define FERMATA_ENGINE_SCHEDULER_JOB_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/model/model.h"
#include "engine/scheduler/requests.h"

namespace fermata {

using Clock = std::chrono::steady_clock;

// The moment that comes `limit` from now; time_point::max() when that is too far to count.
Clock::time_point After(absl::Duration limit);

// What ends a request that a server about to stop does not begin.
absl::Status DrainingError();

// What a job feeds into the next step.
struct JobStep {
  std::span<const int32_t> tokens;  // Empty: nothing now, the job rests.
  SequenceStep::Logits logits = SequenceStep::Logits::kNone;
  bool decode = false;  // The token was sampled in the step before.
};

// A request on its way through the engine: a turn, or a text to score. Fetch and Prepare are called on
// the intake's threads; all else on the engine thread, but for TakeLogits, which compute threads call, and
// for Cancel and cancelled, which may come from any.
//
// A job ends by exactly one of: its own Advance making it done, Stop, or Fail.
class Job : public RequestHandle {
 public:
  // What a job needs of the engine. All may be called from any thread.
  struct Hooks {
    std::function<void()> wake;  // There is something for the engine to see to.
    // Another request may be accepted in this one's place.
    std::function<void(const Job&)> release_place;
    // The client has heard of the end.
    std::function<void()> ended;
  };
  Job(std::string request_id, Claim claim, absl::Duration time_limit, Hooks hooks);

  void Cancel() override;
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  const std::string& request_id() const { return request_id_; }
  const Claim& claim() const { return claim_; }
  Clock::time_point arrival() const { return arrival_; }
  // When the time limit passes; time_point::max() for none.
  Clock::time_point deadline() const { return deadline_; }

  // Whether it has left the queue. To be set before Start.
  bool admitted() const { return admitted_; }
  void SetAdmitted() { admitted_ = true; }

  // Waits for what the job needs from a disk, if it needs anything. On an error the job is to be
  // failed with it.
  virtual absl::Status Fetch() { return absl::OkStatus(); }
  // Tokenizes. On an error the job is to be failed with it.
  virtual absl::Status Prepare() = 0;
  // Tokens to consume before the first is sampled. After Prepare.
  virtual int64_t prompt_tokens() const = 0;
  // The job leaves the queue and works on `state` (at position 0) from now on. On an error the job
  // is to be failed with it.
  virtual absl::Status Start(SequenceState* state) = 0;
  // Prompt tokens that the next step could consume; 0 once none is left, and when none can be.
  virtual int64_t PromptLeft() const = 0;
  // What to feed next: `prompt_tokens` of those, or with none left the token sampled last. The span
  // stays valid until Advance.
  virtual JobStep Next(int64_t prompt_tokens) = 0;
  // The tokens of Next have been consumed, and this is row `row` of the logits that it asked for.
  // Chooses or scores by it. Rows may come in any order, on several threads at once.
  virtual void TakeLogits(int64_t row, std::span<const float> logits) = 0;
  // All rows have been taken. Goes on, tells the client, and ends the job if it must.
  virtual void Advance() = 0;
  // Whether nothing is left to do on the engine thread, and the state is free. The client hears of
  // the end then, or as soon as its session is durable.
  virtual bool done() const = 0;
  // Ends a job, started or not, early but in good order.
  virtual void Stop(FinishReason reason) = 0;
  // Ends a job with an error.
  virtual void Fail(absl::Status status) = 0;

 protected:
  // Has `tell` tell the client of the end; to be called once. A client that sends its next request
  // then must find the place free.
  template <typename Tell>
  void End(Tell tell) {
    hooks_.release_place(*this);
    tell();
    hooks_.ended();
  }

 private:
  const std::string request_id_;
  const Claim claim_;
  const Clock::time_point arrival_ = Clock::now();
  const Clock::time_point deadline_;
  const Hooks hooks_;
  std::atomic<bool> cancelled_ = false;
  bool admitted_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_JOB_H_
