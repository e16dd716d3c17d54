#ifndef FERMATA_ENGINE_SCHEDULER_ENGINE_H_
#define FERMATA_ENGINE_SCHEDULER_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/mixers/mixer.h"
#include "engine/model/model.h"
#include "engine/scheduler/observer.h"
#include "engine/scheduler/requests.h"
#include "engine/session/prefix_cache.h"
#include "engine/session/session_store.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {

struct EngineOptions {
  int max_running = 64;           // Sequences with a state in use; each takes state_bytes.
  int max_queued = 256;           // Requests that wait for one of those places.
  int max_queued_per_tenant = 0;  // Of those, of one tenant; 0: no such limit.
  // Waiting time that raises a request in the queue by one level of priority; above zero.
  absl::Duration priority_ageing = absl::Seconds(5);
  // Prompt tokens that one step consumes at most, over all sequences.
  int prefill_tokens_per_step = 256;
  // How long a step should take at most while sequences decode: as many prompt tokens are consumed
  // as fit beside them, but at least kMinPromptTokens. Infinite: prefill_tokens_per_step always.
  absl::Duration step_time_target = absl::Milliseconds(50);
  // kRecurrent: however a prompt is cut, the bits are those of token by token. kChunkwise: faster
  // where feature maps are wide, equal to rounding, and cut at multiples of kChunkTokens.
  Form prefill_form = Form::kRecurrent;
  absl::Duration retry_after = absl::Seconds(1);  // Told to clients when the queue is full.
};

struct EngineLoad {
  int running = 0;
  int queued = 0;
};

// Runs turns of many sequences on one model: one engine thread that owns the forward passes, one
// intake thread that tokenizes, and some that wait for sessions which are not in memory. Each step feeds every running sequence its next token and as
// much of the prompts as fits (see StepBudget); Queue says who runs next.
//
// The tokens of a turn are a function of the model, the session's own requests and the seed alone.
// Thread-safe; no call but Drain and the destructor waits.
class Engine {
 public:
  // All must outlive the engine. `sessions` holds states of this model.
  struct Parts {
    const Model* model = nullptr;
    const Tokenizer* tokenizer = nullptr;
    SessionStore* sessions = nullptr;
    PrefixCache* prefixes = nullptr;  // Null: every prompt is consumed whole. Of the model's state.
    EngineObserver* observer = nullptr;
  };
  Engine(const Parts& parts, const EngineOptions& options);
  // Stops at once: what runs is committed as DRAINED, what waits fails.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Accepts a turn, or says why not: INVALID_ARGUMENT naming the field, RESOURCE_EXHAUSTED with
  // reason QUEUE_FULL or TENANT_QUEUE_FULL, UNAVAILABLE with reason DRAINING, FAILED_PRECONDITION
  // with reason UNBOUNDED_STATE, or what SessionStore::Begin says. On an error `sink` is never called.
  absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(TurnRequest request,
                                                        std::shared_ptr<TurnSink> sink);

  // Accepts a text to score. `done` is called once, on the engine thread, unless this fails.
  using ScoreCallback = std::function<void(absl::StatusOr<ScoreResult>)>;
  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request, ScoreCallback done);

  // Tells the engine that a sink can accept again.
  void Wake();

  // Accepts nothing more, fails what waits with DRAINING, lets what runs finish for up to `grace`,
  // and commits the rest as DRAINED. Returns when nothing runs.
  void Drain(absl::Duration grace);

  EngineLoad load() const;
  const EngineOptions& options() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_ENGINE_H_
