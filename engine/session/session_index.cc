#include "engine/session/session_index.h"

#include <algorithm>
#include <cassert>

namespace fermata {

bool SessionIndex::Entry::in_memory() const {
  return head.in_memory || std::any_of(checkpoints.begin(), checkpoints.end(),
                                       [](const Kept& kept) { return kept.in_memory; });
}

bool SessionIndex::Entry::clean() const {
  return head.below && std::all_of(checkpoints.begin(), checkpoints.end(),
                                   [](const Kept& kept) { return kept.below; });
}

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
  expiries_.erase({entry.expiry, &entry});
  entry.leased = true;
  List(entry);
}

void SessionIndex::Release(Entry& entry) {
  assert(entry.leased && entry.settled);
  entry.leased = false;
  List(entry);
  if (entry.expiry != absl::InfiniteFuture()) expiries_.emplace(entry.expiry, &entry);
}

void SessionIndex::Settle(Entry& entry, const SessionRecord& record, const Kept& head,
                          std::vector<Kept> checkpoints) {
  assert(entry.leased);
  if (entry.settled) {
    CountHead(entry, -1);
    CountCheckpoints(entry, -1);
  }
  entry.settled = true;
  entry.head = head;
  entry.checkpoints = std::move(checkpoints);
  entry.checkpoints.shrink_to_fit();
  entry.pinned = record.pinned;
  entry.revision = record.revision;
  entry.expiry = record.ttl.has_value() && !record.pinned ? record.update_time + *record.ttl
                                                          : absl::InfiniteFuture();
  CountHead(entry, 1);
  CountCheckpoints(entry, 1);
}

void SessionIndex::Keep(Entry& entry, std::vector<Kept> checkpoints) {
  if (entry.settled) CountCheckpoints(entry, -1);
  entry.checkpoints = std::move(checkpoints);
  entry.checkpoints.shrink_to_fit();
  if (entry.settled) CountCheckpoints(entry, 1);
  List(entry);
}

void SessionIndex::Place(Entry& entry, bool in_memory, bool below) {
  if (entry.settled) in_memory_ += (in_memory ? 1 : 0) - (entry.head.in_memory ? 1 : 0);
  entry.head.in_memory = in_memory;
  entry.head.below = below;
  List(entry);
}

void SessionIndex::Remove(Entry& entry) {
  expiries_.erase({entry.expiry, &entry});
  if (entry.listed) idle_.erase(entry.use);
  if (entry.settled) {
    CountHead(entry, -1);
    CountCheckpoints(entry, -1);
  }
  entries_.erase(entry.place);
}

SessionIndex::Entry* SessionIndex::Victim(bool clean) const {
  const auto it = std::find_if(idle_.begin(), idle_.end(), [clean](const Entry* entry) {
    return entry->holds == 0 && (!clean || entry->clean());
  });
  return it == idle_.end() ? nullptr : *it;
}

void SessionIndex::Touch(Entry& entry) {
  if (entry.listed) idle_.splice(idle_.end(), idle_, entry.use);
}

SessionIndex::Entry* SessionIndex::Expired(absl::Time now) const {
  for (const auto& [expiry, entry] : expiries_) {
    if (expiry > now) return nullptr;
    if (entry->holds == 0) return entry;
  }
  return nullptr;
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

void SessionIndex::ForEach(const std::function<void(Entry&)>& each) {
  for (auto& [id, entry] : entries_) each(entry);
}

void SessionIndex::List(Entry& entry) {
  const bool list = !entry.leased && entry.in_memory() && (pinned_may_go_ || !entry.pinned);
  if (list == entry.listed) return;
  if (list) {
    entry.use = idle_.insert(idle_.end(), &entry);
  } else {
    idle_.erase(entry.use);
  }
  entry.listed = list;
}

void SessionIndex::CountState(SnapshotKey state, int heads, int checkpoints) {
  Users& users = states_[state];
  const auto alone = [&users] { return users.heads == 0 && users.checkpoints > 0 ? 1 : 0; };
  checkpoint_states_ -= alone();
  users.heads += heads;
  users.checkpoints += checkpoints;
  checkpoint_states_ += alone();
  if (users.heads == 0 && users.checkpoints == 0) states_.erase(state);
}

void SessionIndex::CountHead(const Entry& entry, int by) {
  sessions_ += by;
  positions_ += by * entry.head.at.position;
  if (entry.head.in_memory) in_memory_ += by;
  CountState(entry.head.state(), by, 0);
}

void SessionIndex::CountCheckpoints(const Entry& entry, int by) {
  checkpoints_ += by * static_cast<int64_t>(entry.checkpoints.size());
  for (const Kept& kept : entry.checkpoints) CountState(kept.state(), 0, by);
}

}  // namespace fermata
