#include "engine/scheduler/job.h"

#include "engine/base/error.h"

namespace fermata {

Clock::time_point After(absl::Duration limit) {
  constexpr absl::Duration kCentury = absl::Hours(24 * 365 * 100);
  if (limit > kCentury) return Clock::time_point::max();
  return Clock::now() + absl::ToChronoNanoseconds(limit);
}

absl::Status DrainingError() {
  return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                   {.reason = "DRAINING"});
}

Job::Job(std::string request_id, Claim claim, absl::Duration time_limit, Hooks hooks)
    : request_id_(std::move(request_id)),
      claim_(std::move(claim)),
      deadline_(After(time_limit)),
      hooks_(std::move(hooks)) {}

void Job::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  hooks_.wake();
}

}  // namespace fermata
