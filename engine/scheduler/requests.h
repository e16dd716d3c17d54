#ifndef FERMATA_ENGINE_SCHEDULER_REQUESTS_H_
#define FERMATA_ENGINE_SCHEDULER_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/prompt.h"
#include "engine/session/session_store.h"

namespace fermata {

// What decides when a request gets a place; see Queue.
struct Claim {
  int32_t priority = 0;  // In [kMinPriority, kMaxPriority]; higher first.
  std::string tenant;    // On whose account: at most kMaxTenantBytes of printable ASCII.
};
inline constexpr int32_t kMinPriority = -10;
inline constexpr int32_t kMaxPriority = 10;
inline constexpr size_t kMaxTenantBytes = 64;

// One turn; fermata/v1/generation.proto says what the fields mean.
struct TurnRequest {
  std::string request_id;
  Claim claim;
  Prompt prompt;
  std::optional<SessionStore::BeginOptions> session;
  SamplingParams sampling;  // `seed` is overwritten unless seed_given.
  bool seed_given = false;
  bool ignore_eos = false;
  absl::Duration time_limit = absl::InfiniteDuration();
};

enum class FinishReason { kStop, kStopToken, kLength, kCancelled, kTimeLimit, kDrained };

struct TurnStarted {
  std::string session_id;  // Empty without a session.
  int64_t position = 0;    // Before the turn.
};

struct TurnChunk {
  int32_t index = 0;     // Of the first token among the turn's new tokens.
  int64_t position = 0;  // Of the first token in the sequence.
  std::vector<SampledToken> tokens;
  std::string text;
};

struct TurnTimings {
  absl::Duration queue;
  absl::Duration prefill;
  std::optional<absl::Duration> time_to_first_token;
  absl::Duration decode;
  absl::Duration total;
};

struct TurnResult {
  FinishReason reason = FinishReason::kLength;
  int32_t priority = 0;  // As asked for.
  std::string matched_stop;
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t cached_tokens = 0;  // Of the prompt's: known from the prefix cache.
  TurnTimings timings;
  std::optional<SessionRecord> session;  // As it is now; unset when there is none.
  uint64_t seed = 0;
};

// Where a turn's events go: Started, then chunks, then exactly one of Completed and Failed, which is
// the last call. The engine thread calls these, one at a time; the last one comes on a thread of the
// session store's where the session had to be made durable first. None may block.
class TurnSink {
 public:
  virtual ~TurnSink() = default;

  virtual void Started(TurnStarted started) = 0;
  virtual void Chunk(TurnChunk chunk) = 0;
  virtual void Completed(TurnResult result) = 0;
  // The turn had no effect on its session, also when chunks have come.
  virtual void Failed(absl::Status status) = 0;

  // False while the reader is behind by as much as may be buffered: the turn rests, and keeps its
  // place, until the sink calls Engine::Wake.
  virtual bool CanAccept() const = 0;
};

// A request that has been accepted. Thread-safe; not to be used after the engine is gone.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Stops the request within one step, queued or running. What was generated is committed, and the
  // sink hears Completed(kCancelled); a request that generated nothing leaves its session as it
  // was.
  virtual void Cancel() = 0;
};

struct ScoreRequest {
  std::string request_id;
  Claim claim;
  Prompt context;
  Prompt input;
  int32_t top_logprobs = 0;
};

struct ScoreResult {
  std::vector<int32_t> token_ids;  // Of the input.
  std::vector<SampledToken>
      tokens;  // Scored: all of the input's but its first when there is no context.
  double total_logprob = 0;
  int64_t scored_bytes = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_REQUESTS_H_
