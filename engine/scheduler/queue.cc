#include "engine/scheduler/queue.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>
#include <vector>

namespace fermata {

Queue::Queue(absl::Duration ageing)
    : ageing_(std::max<Clock::duration>(absl::ToChronoNanoseconds(ageing), Clock::duration(1))) {}

void Queue::Push(Entry entry) {
  Tenant& tenant = TenantOf(entry.claim.tenant);
  if (tenant.waiting == 0) tenant.served = std::max(tenant.served, virtual_time_);
  ++tenant.waiting;
  entries_.push_back(std::move(entry));
}

Queue::Entry Queue::Pop(Clock::time_point now) {
  assert(!entries_.empty());
  // Smaller is better; of equals, the first in the list stays.
  const auto rank = [&](const Entry& entry) {
    return std::tuple(-Level(entry, now), tenants_.at(entry.claim.tenant).served, entry.arrival);
  };
  auto best = entries_.begin();
  auto best_rank = rank(*best);
  for (auto it = std::next(best); it != entries_.end(); ++it) {
    const auto it_rank = rank(*it);
    if (it_rank < best_rank) {
      best = it;
      best_rank = it_rank;
    }
  }
  Entry entry = std::move(*best);
  entries_.erase(best);
  Tenant& tenant = tenants_.at(entry.claim.tenant);
  --tenant.waiting;
  virtual_time_ = std::max(virtual_time_, tenant.served);
  tenant.served += std::max<int64_t>(entry.prompt_tokens, 1);
  return entry;
}

void Queue::RemoveIf(absl::FunctionRef<bool(const Entry&)> leaves) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!leaves(entry)) return false;
    --tenants_.at(entry.claim.tenant).waiting;
    return true;
  });
}

void Queue::Charge(const std::string& tenant, int64_t tokens) { TenantOf(tenant).served += tokens; }

int64_t Queue::Level(const Entry& entry, Clock::time_point now) const {
  return entry.claim.priority + (now - entry.arrival) / ageing_;
}

Queue::Tenant& Queue::TenantOf(const std::string& name) {
  if (const auto it = tenants_.find(name); it != tenants_.end()) return it->second;
  // Names are the clients' to choose, so there is no end of them.
  if (tenants_.size() >= kMaxIdleTenants + entries_.size()) ForgetIdle();
  return tenants_[name] = {.served = virtual_time_, .waiting = 0};
}

void Queue::ForgetIdle() {
  // Those at or before the virtual time lose nothing by it. Of the others go the half that has been
  // served least, so that this is not done anew for each newcomer.
  std::vector<int64_t> served;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.waiting == 0) served.push_back(tenant.served);
  }
  const auto middle = served.begin() + static_cast<std::ptrdiff_t>(served.size() / 2);
  std::nth_element(served.begin(), middle, served.end());
  const int64_t least = std::max(*middle, virtual_time_);
  std::erase_if(tenants_, [&](const auto& item) {
    return item.second.waiting == 0 && item.second.served <= least;
  });
}

}  // namespace fermata
