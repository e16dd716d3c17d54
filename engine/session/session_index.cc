#include "engine/session/session_index.h"

#include <cassert>

namespace fermata {

SessionIndex::Entry* SessionIndex::Find(std::string_view id) {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second;
}

SessionIndex::Entry& SessionIndex::Add(std::string_view id) {
  const auto [it, added] = entries_.try_emplace(std::string(id));
  assert(added);
  it->second.place = it;
  return it->second;
}

void SessionIndex::Lease(Entry& entry) {
  assert(!entry.leased);
  Unlist(entry);
  entry.leased = true;
}

void SessionIndex::Release(Entry& entry) {
  assert(entry.leased && entry.settled);
  entry.leased = false;
  entry.use = idle_.insert(idle_.end(), &entry);
  if (entry.expiry != absl::InfiniteFuture()) expiries_.emplace(entry.expiry, &entry);
}

void SessionIndex::Settle(Entry& entry, const SessionRecord& record) {
  assert(entry.leased);
  if (!entry.settled) ++sessions_;
  entry.settled = true;
  positions_ += record.position - entry.position;
  entry.position = record.position;
  entry.expiry = record.ttl.has_value() ? record.update_time + *record.ttl : absl::InfiniteFuture();
}

void SessionIndex::Remove(Entry& entry) {
  if (!entry.leased) Unlist(entry);
  if (entry.settled) --sessions_;
  positions_ -= entry.position;
  entries_.erase(entry.place);
}

SessionIndex::Entry* SessionIndex::LeastRecentlyUsed() const {
  return idle_.empty() ? nullptr : idle_.front();
}

SessionIndex::Entry* SessionIndex::Expired(absl::Time now) const {
  if (expiries_.empty() || expiries_.begin()->first > now) return nullptr;
  return expiries_.begin()->second;
}

std::vector<std::string> SessionIndex::After(std::string_view id, size_t count,
                                             absl::Time now) const {
  std::vector<std::string> ids;
  for (auto it = entries_.upper_bound(id); it != entries_.end() && ids.size() < count; ++it) {
    const Entry& entry = it->second;
    const bool expired = !entry.leased && entry.expiry <= now;
    if (entry.settled && !expired) ids.push_back(it->first);
  }
  return ids;
}

void SessionIndex::Unlist(Entry& entry) {
  idle_.erase(entry.use);
  expiries_.erase({entry.expiry, &entry});
}

}  // namespace fermata
