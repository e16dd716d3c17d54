#ifndef FERMATA_ENGINE_SCHEDULER_PLACES_H_
#define FERMATA_ENGINE_SCHEDULER_PLACES_H_

#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace fermata {

// Counts the requests that have been accepted and not ended: those that run, and those that wait for
// a place, in all and by tenant. Not thread-safe.
class Places {
 public:
  struct Options {
    int max_running = 1;
    int max_queued = 0;             // That wait while as many run as may.
    int max_queued_per_tenant = 0;  // Of those, of one tenant; 0: no such limit.
    absl::Duration retry_after;     // Told to those that are refused.
  };
  explicit Places(const Options& options) : options_(options) {}

  // Accepts a request of `tenant`, which waits from now on, or says why not: RESOURCE_EXHAUSTED with
  // reason QUEUE_FULL or TENANT_QUEUE_FULL.
  absl::Status Take(const std::string& tenant);
  // One that waits has begun to run.
  void StartRunning(const std::string& tenant);
  // One has ended that ran, or that still waited.
  void Release(const std::string& tenant, bool ran);

  int taken() const { return taken_; }

 private:
  void LeaveQueue(const std::string& tenant);

  const Options options_;
  int taken_ = 0;
  std::unordered_map<std::string, int> waiting_;  // By tenant; none of 0.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_PLACES_H_
