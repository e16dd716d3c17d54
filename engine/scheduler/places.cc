#include "engine/scheduler/places.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace fermata {

absl::Status Places::Take(const std::string& tenant) {
  if (taken_ >= options_.max_running + options_.max_queued) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the queue is full: ", options_.max_running, " running and ",
                                  options_.max_queued, " waiting requests are the limit"),
                     {.reason = "QUEUE_FULL", .retry_after = options_.retry_after});
  }
  int& waiting = waiting_[tenant];
  // Some of those that wait may find a place at once.
  const int queued = std::min(waiting, std::max(taken_ - options_.max_running, 0));
  if (options_.max_queued_per_tenant > 0 && queued >= options_.max_queued_per_tenant) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat(options_.max_queued_per_tenant,
                                  " waiting requests of one tenant are the limit"),
                     {.reason = "TENANT_QUEUE_FULL", .retry_after = options_.retry_after});
  }
  ++waiting;
  ++taken_;
  return absl::OkStatus();
}

void Places::StartRunning(const std::string& tenant) { LeaveQueue(tenant); }

void Places::Release(const std::string& tenant, bool ran) {
  if (!ran) LeaveQueue(tenant);
  --taken_;
}

void Places::LeaveQueue(const std::string& tenant) {
  const auto it = waiting_.find(tenant);
  assert(it != waiting_.end());
  if (--it->second == 0) waiting_.erase(it);
}

}  // namespace fermata
