#include "engine/scheduler/job.h"

namespace fermata {
namespace {

Clock::time_point DeadlineAfter(absl::Duration limit) {
  // Beyond a century there is no limit, and nothing that could overflow.
  if (limit > absl::Hours(24 * 365 * 100)) return Clock::time_point::max();
  return Clock::now() + absl::ToChronoNanoseconds(limit);
}

}  // namespace

Job::Job(std::string request_id, absl::Duration time_limit, std::function<void()> wake)
    : request_id_(std::move(request_id)),
      deadline_(DeadlineAfter(time_limit)),
      wake_(std::move(wake)) {}

void Job::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  wake_();
}

}  // namespace fermata
