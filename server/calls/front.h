#ifndef FERMATA_SERVER_CALLS_FRONT_H_
#define FERMATA_SERVER_CALLS_FRONT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/worker.h"
#include "server/calls/convert.h"
#include "server/calls/kept_answers.h"
#include "server/calls/runtime.h"
#include "server/calls/transfers.h"
#include "server/config/flags.h"
#include "server/observe/metrics.h"
#include "server/observe/trace_context.h"

namespace fermata {

// What the calls of both fronts share. All of it outlives their servers.
struct Front {
  const ServingState* serving = nullptr;
  Metrics* metrics = nullptr;
  Worker* writer = nullptr;    // Writes all streams.
  Worker* helper = nullptr;    // Tokenizes, and makes large replies.
  Worker* sessions = nullptr;  // Calls of the session store, which may wait for a disk.
  KeptAnswers* answers = nullptr;
  TransferPlaces* transfers = nullptr;
  TimeLimits time_limits;
  SessionDefaults session_defaults;
  int64_t stream_buffer_tokens = 0;
  size_t max_message_bytes = 0;
};

// Whence a call came.
struct CallOrigin {
  FrontKind front = FrontKind::kHttp;
  TraceContext trace;  // Without ids where the call is in no trace.
};

// One call, from its arrival until it has been counted and logged.
class CallRecord {
 public:
  // `method` must be a literal.
  CallRecord(Metrics* metrics, std::string_view method, std::string request_id, CallOrigin origin);

  // Counts the call under `outcome`, or under the reason of a failure, which is logged as well;
  // with its message only when the fault is the server's, for others may quote a client's text.
  // Call one of them, once.
  void Succeed(std::string_view outcome = "ok");
  void Fail(const absl::Status& status);

  std::string_view method() const { return method_; }
  const std::string& request_id() const { return request_id_; }
  const TraceContext& trace() const { return origin_.trace; }

 private:
  void End(std::string_view outcome);

  Metrics* metrics_;
  std::string_view method_;
  std::string request_id_;
  CallOrigin origin_;
  absl::Time arrival_;
};

// OK, or FAILED_PRECONDITION with reason UNBOUNDED_STATE for a model whose state grows.
absl::Status CheckKeepsSessions(const ModelInfo& model);

// OK, or RESOURCE_EXHAUSTED with reason RESPONSE_TOO_LARGE for a reply of `bytes`.
absl::Status CheckReplySize(const Front& front, size_t bytes);

// What a call is told for which a worker has no room: RESOURCE_EXHAUSTED with reason QUEUE_FULL.
absl::Status TooManyWait();

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_FRONT_H_
