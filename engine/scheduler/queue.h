#ifndef FERMATA_ENGINE_SCHEDULER_QUEUE_H_
#define FERMATA_ENGINE_SCHEDULER_QUEUE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/requests.h"

namespace fermata {

// What waits for a place, and who gets the next one: the highest level, then the tenant that has been
// served least, then who came first.
//
// A request's level is its priority, and one more for each `ageing` that it has waited. So a request
// of priority p is passed by those of priority q alone that came less than (q - p + 1) * ageing after
// it: no stream of others can starve it.
//
// Service is counted in tokens: a prompt's when it is admitted, then each that is sampled. A tenant
// that comes to an empty line of its own starts at the virtual time, which is the service of the
// tenant that was admitted last (start-time fair queueing, Goyal et al. 1996; for language models
// the virtual token counter of Sheng et al. 2024): it is owed nothing for the time when it asked for
// nothing.
//
// The engine thread's own.
class Queue {
 public:
  struct Entry {
    std::shared_ptr<Job> job;
    Claim claim;
    int64_t prompt_tokens = 0;
    Clock::time_point arrival;
  };

  static constexpr size_t kMaxIdleTenants = 4096;

  explicit Queue(absl::Duration ageing);

  void Push(Entry entry);
  // Takes out the entry whose turn it is. There must be one.
  Entry Pop(Clock::time_point now);
  // Takes out the entries for which `leaves` says so.
  void RemoveIf(absl::FunctionRef<bool(const Entry&)> leaves);
  // `tenant` has been given so many tokens more.
  void Charge(const std::string& tenant, int64_t tokens);

  bool empty() const { return entries_.empty(); }
  const std::list<Entry>& entries() const { return entries_; }  // In the order of Push.
  // That are remembered: those that wait, and at most kMaxIdleTenants others.
  size_t num_tenants() const { return tenants_.size(); }

 private:
  struct Tenant {
    int64_t served = 0;
    int64_t waiting = 0;
  };

  int64_t Level(const Entry& entry, Clock::time_point now) const;
  Tenant& TenantOf(const std::string& name);
  void ForgetIdle();

  const Clock::duration ageing_;
  std::list<Entry> entries_;
  std::unordered_map<std::string, Tenant> tenants_;
  int64_t virtual_time_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_QUEUE_H_
