// How a snapshot comes in the place of another, and where the room for it is from.

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

// The newest of a session's snapshots below, of those that it keeps; 0 for none.
SnapshotKey NewestBelow(const SessionIndex::Entry& entry) {
  SnapshotKey newest = entry.head.below ? entry.head.key() : 0;
  for (const Kept& kept : entry.checkpoints) {
    if (kept.below) newest = std::max(newest, kept.key());
  }
  return newest;
}

}  // namespace

Durability SessionStore::Impl::DurabilityOf(const SessionRecord& record) const {
  if (lower == nullptr) return Durability::kMemory;
  return record.durability.value_or(options.default_durability);
}

int32_t SessionStore::Impl::MaxCheckpointsOf(const SessionRecord& record) const {
  return record.max_checkpoints.value_or(options.default_max_checkpoints);
}

absl::Status SessionStore::Impl::CheckSettings(std::optional<Durability> durability,
                                               std::optional<int32_t> max_checkpoints) const {
  if (durability == Durability::kDisk && lower == nullptr) {
    return InvalidField("durability", "this server keeps no sessions on disk");
  }
  if (max_checkpoints.has_value() && (*max_checkpoints < 0 || *max_checkpoints > kMaxCheckpoints)) {
    return InvalidField("max_checkpoints", "must be from 0 to 64");
  }
  return absl::OkStatus();
}

SessionRecord SessionStore::Impl::NewRecord(std::string_view id, absl::Time now) const {
  SessionRecord record;
  record.id = id;
  record.model_fingerprint = options.model_fingerprint;
  record.create_time = record.update_time = now;
  record.ttl = options.default_ttl;
  return record;
}

void SessionStore::Impl::Publish(Entry& entry, const SessionRecord& record, const Kept& head,
                                 std::vector<Kept> checkpoints) {
  const auto stays = [&](SnapshotKey key) {
    return key == head.key() || std::any_of(checkpoints.begin(), checkpoints.end(),
                                            [&](const Kept& kept) { return kept.key() == key; });
  };
  std::vector<SnapshotKey> from_memory;
  std::vector<SnapshotName> from_below;
  const auto drop = [&](const Kept& kept) {
    if (stays(kept.key())) return;
    if (kept.in_memory) from_memory.push_back(kept.key());
    if (kept.below) from_below.push_back(kept.at.snapshot);
  };
  drop(entry.head);
  for (const Kept& kept : entry.checkpoints) drop(kept);
  if (entry.stale.key != 0 && !stays(entry.stale.key)) from_below.push_back(entry.stale);
  entry.stale = {};
  entry.damaged = false;
  // The store's memory tier never fails to erase.
  memory.Erase(from_memory).IgnoreError();
  if (!entry.settled) tombstones.Remove(entry.id());
  index.Settle(entry, record, head, std::move(checkpoints));
  EraseBelow(entry, std::move(from_below));
}

void SessionStore::Impl::EraseBelow(Entry& entry, std::vector<SnapshotName> names) {
  if (names.empty()) return;
  std::sort(names.begin(), names.end(),
            [](const SnapshotName& a, const SnapshotName& b) { return a.key < b.key; });
  // After a crash the session is what the newest snapshot below says: a turn's boundary.
  if (names.back().key > NewestBelow(entry)) {
    entry.stale = names.back();
    names.pop_back();
  }
  std::vector<SnapshotKey> keys;
  keys.reserve(names.size());
  for (const SnapshotName& name : names) keys.push_back(name.key);
  if (eraser != nullptr) eraser->Add(std::move(keys));
}

std::vector<absl::Status> SessionStore::Impl::PutBelow(std::span<const NewSnapshot> snapshots) {
  std::vector<absl::Status> statuses = lower->Put(snapshots);
  if (std::none_of(statuses.begin(), statuses.end(), absl::IsResourceExhausted)) return statuses;
  // What was superseded may still take the bytes that are wanted.
  eraser->Drain();
  for (size_t i = 0; i < snapshots.size(); ++i) {
    if (absl::IsResourceExhausted(statuses[i])) {
      statuses[i] = lower->Put(snapshots.subspan(i, 1)).front();
    }
  }
  return statuses;
}

absl::Status SessionStore::Impl::Establish(Entry& entry, const SessionRecord& record,
                                           std::span<const std::byte> state) {
  Room room;
  {
    Lock lock(mutex);
    absl::StatusOr<Room> taken = TakeRoom(lock, /*with_state=*/true, /*block=*/true);
    if (!taken.ok()) return About(record.id, taken.status());
    room = *std::move(taken);
  }
  if (state.empty()) {
    std::fill(room.state().begin(), room.state().end(), std::byte{0});
  } else {
    std::copy(state.begin(), state.end(), room.state().begin());
  }
  const SnapshotKey key = NextKey();
  Kept head{.at = CheckpointOf({key, key}, record),
            .in_memory = true,
            .below = DurabilityOf(record) == Durability::kDisk};
  if (head.below) {
    const NewSnapshot snapshot{head.at.snapshot, &record, room.state()};
    if (const absl::Status put = PutBelow({&snapshot, 1}).front(); !put.ok()) {
      return Failed(record.id, put);
    }
  }
  memory.Put(head.at.snapshot, record, StateChecksum(room.state()), std::move(room));
  const std::lock_guard lock(mutex);
  Publish(entry, record, head, {});
  return absl::OkStatus();
}

void SessionStore::Impl::Trim(std::vector<Kept>& checkpoints, SessionRecord& record) const {
  const auto max = static_cast<size_t>(MaxCheckpointsOf(record));
  if (checkpoints.size() > max) checkpoints.erase(checkpoints.begin(), checkpoints.end() - max);
  record.checkpoints.clear();
  for (const Kept& kept : checkpoints) record.checkpoints.push_back(kept.at);
}

absl::Status SessionStore::Impl::PutAgain(Entry& entry, const Kept& place, SessionRecord& record,
                                          std::vector<Kept> checkpoints) {
  Trim(checkpoints, record);
  Kept head{.at = CheckpointOf({NextKey(), place.state()}, record),
            .in_memory = place.in_memory,
            .below = !place.in_memory || DurabilityOf(record) == Durability::kDisk};
  head.at.time = place.at.time;
  Room room;
  if (head.in_memory) {
    Lock lock(mutex);
    FERMATA_ASSIGN_OR_RETURN(room, TakeRoom(lock, /*with_state=*/false, /*block=*/true));
  }
  if (head.below) {
    NewSnapshot snapshot{head.at.snapshot, &record, {}};
    if (!place.below) {
      FERMATA_ASSIGN_OR_RETURN(snapshot.state, memory.View(place.key()));
    }
    FERMATA_RETURN_IF_ERROR(PutBelow({&snapshot, 1}).front());
  }
  const std::lock_guard lock(mutex);
  if (head.in_memory) memory.ShareWith(place.key(), head.at.snapshot, record, std::move(room));
  Publish(entry, record, head, std::move(checkpoints));
  return absl::OkStatus();
}

absl::StatusOr<SessionStore::Impl::Room> SessionStore::Impl::TakeRoom(Lock& lock, bool with_state,
                                                                      bool block) {
  for (;;) {
    absl::StatusOr<Room> room = memory.Reserve(with_state);
    if (room.ok()) {
      if (Short()) mover_wanted.notify_one();
      return room;
    }
    if (DropExpired(options.clock())) continue;
    if (lower == nullptr) {
      if (!Evict()) return room;
      continue;
    }
    if (index.Victim() == nullptr && !moving) return room;
    if (!block) {
      mover_wanted.notify_one();
      return Room();
    }
    FERMATA_RETURN_IF_ERROR(AwaitMove(lock));
  }
}

bool SessionStore::Impl::DropExpired(absl::Time now) {
  bool any = false;
  while (Entry* entry = index.Expired(now)) {
    Drop(*entry);
    ++expirations;
    any = true;
  }
  return any;
}

bool SessionStore::Impl::Evict() {
  Entry* victim = index.Victim();
  if (victim == nullptr) return false;
  // A session is worth more than its past.
  if (!victim->checkpoints.empty()) {
    std::vector<SnapshotKey> keys;
    for (const Kept& kept : victim->checkpoints) keys.push_back(kept.key());
    index.Keep(*victim, {});
    memory.Erase(keys).IgnoreError();
    return true;
  }
  Drop(*victim);
  ++evictions;
  return true;
}

void SessionStore::Impl::Drop(Entry& entry) {
  tombstones.Add(entry.id());
  std::vector<SnapshotKey> keys;
  for (const Kept& kept : entry.checkpoints) keys.push_back(kept.key());
  if (entry.stale.key != 0) keys.push_back(entry.stale.key);
  keys.push_back(entry.head.key());
  // The newest last: it must not leave an older one behind as the session's.
  std::sort(keys.begin(), keys.end());
  memory.Erase(keys).IgnoreError();
  if (eraser != nullptr) eraser->Add(std::move(keys));
  index.Remove(entry);
}

}  // namespace fermata
