#ifndef FERMATA_ENGINE_SCHEDULER_OBSERVER_H_
#define FERMATA_ENGINE_SCHEDULER_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/scheduler/requests.h"

namespace fermata {

// One step: a forward pass (two, when prompts are computed in another form), and the sampling after
// it.
struct StepStats {
  int64_t sequences = 0;      // In the batch.
  int64_t prompt_tokens = 0;  // Rows that consumed prompts or scored text.
  int64_t prompt_budget = 0;  // That prompts could have consumed.
  int64_t decode_tokens = 0;  // Rows that consumed a token sampled before.
  absl::Duration duration;    // Of all of it.
  absl::Duration forward;     // Of that, of the passes alone.
  absl::Duration choosing;    // And of sampling and scoring.
  int64_t denominator_clamps = 0;
};

// Learns what the engine does, for metrics and logs. Called on the engine thread, but for refusals,
// which come on the caller's of Submit, and ends of turns, which come where TurnSink's do; must not
// block.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  virtual void StepDone(const StepStats& step) = 0;
  // The time since the token before it of the same turn.
  virtual void TokenSampled(absl::Duration since_previous) = 0;
  virtual void FirstToken(absl::Duration since_arrival) = 0;
  virtual void TurnCompleted(const std::string& request_id, const TurnResult& result) = 0;
  // A turn or scoring request that ended with an error, before or after it was queued.
  virtual void RequestFailed(const std::string& request_id, const absl::Status& status) = 0;
  // `tokens`: whose log-probability was told.
  virtual void ScoreCompleted(const std::string& request_id, int64_t tokens) = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_OBSERVER_H_
