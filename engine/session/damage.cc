// Snapshots that are not what was put: noticed, put aside, told once, and what comes in their place.

#include <algorithm>
#include <utility>

#include "engine/base/aligned_buffer.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

// A snapshot that should be in a tier and is not is as lost as one that was altered.
bool IsLost(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

}  // namespace

void SessionStore::Impl::Trouble(std::string_view id, const absl::Status& what) {
  if (options.observer != nullptr) options.observer->Trouble(id, what);
}

absl::Status SessionStore::Impl::Failed(std::string_view id, const absl::Status& failed) {
  if (!absl::IsResourceExhausted(failed)) Trouble(id, failed);
  return About(id, failed);
}

void SessionStore::Impl::PutAside(std::string_view id, const Kept& kept, const absl::Status& what) {
  ++damaged;
  Trouble(id, what);
  const SnapshotKey key = kept.key();
  if (kept.in_memory) {
    memory.Erase({&key, 1}).IgnoreError();
  } else if (lower != nullptr) {
    if (const absl::Status aside = lower->SetAside(key); !aside.ok()) Trouble(id, aside);
  }
}

absl::StatusOr<SessionRecord> SessionStore::Impl::ReadWhole(const Kept& kept) const {
  FERMATA_ASSIGN_OR_RETURN(SessionRecord record, RecordAt(kept));
  if (kept.in_memory) {
    FERMATA_RETURN_IF_ERROR(memory.View(kept.key()).status());
  } else {
    AlignedBuffer<std::byte> state(static_cast<size_t>(options.state_bytes));
    FERMATA_RETURN_IF_ERROR(lower->State(kept.key(), state.span()));
  }
  return record;
}

absl::Status SessionStore::Impl::FallBack(Lock& lock, Entry& entry) {
  const std::string id(entry.id());
  std::vector<Kept> rest = entry.checkpoints;
  if (entry.stale.key != 0) rest.push_back({.at = {.snapshot = entry.stale}, .below = true});
  std::sort(rest.begin(), rest.end(),
            [](const Kept& a, const Kept& b) { return a.key() < b.key(); });
  lock.unlock();
  absl::StatusOr<SessionRecord> record = DamagedState(0);
  Kept head;
  while (!rest.empty() && !record.ok()) {
    head = rest.back();
    record = ReadWhole(head);
    if (IsLost(record.status()) && head.in_memory && head.below) {
      PutAside(id, head, record.status());
      rest.back().in_memory = false;
      continue;
    }
    if (IsLost(record.status())) {
      PutAside(id, head, record.status());
    } else if (!record.ok()) {
      lock.lock();
      return About(id, record.status());
    }
    rest.pop_back();
  }
  lock.lock();
  if (!record.ok()) {
    entry.damaged = true;
    entry.stale = {};
    index.Keep(entry, {});
    return DamagedSession(id, std::nullopt);
  }
  std::erase_if(rest, [&](const Kept& kept) { return kept.key() == entry.stale.key; });
  head.at = CheckpointOf(head.at.snapshot, *record);
  record->revision = entry.revision + 1;
  Publish(entry, *record, head, std::move(rest));
  return DamagedSession(id, head.at.position);
}

absl::Status SessionStore::Impl::Recover(std::string_view id, SnapshotKey key) {
  FERMATA_ASSIGN_OR_RETURN(const Claim claim, Take(id, {.pinned = true}));
  Lock lock(mutex);
  Entry& entry = *claim;
  const auto it = std::find_if(entry.checkpoints.begin(), entry.checkpoints.end(),
                               [key](const Kept& kept) { return kept.key() == key; });
  if (it != entry.checkpoints.end()) {
    Kept kept = *it;
    std::vector<Kept> rest = entry.checkpoints;
    lock.unlock();
    absl::Status whole = ReadWhole(kept).status();
    if (IsLost(whole)) PutAside(id, kept, whole);
    if (IsLost(whole) && kept.in_memory && kept.below) {
      kept.in_memory = false;
      whole = ReadWhole(kept).status();
      if (IsLost(whole)) PutAside(id, kept, whole);
    }
    lock.lock();
    for (Kept& each : rest) {
      if (each.key() == key) each = kept;
    }
    if (IsLost(whole)) std::erase_if(rest, [key](const Kept& k) { return k.key() == key; });
    index.Keep(entry, std::move(rest));
    return IsLost(whole) ? DamagedSession(id, entry.head.at.position) : Busy(id);
  }
  if (key != 0 && key != entry.head.key()) return Busy(id);  // It has moved on.
  FERMATA_RETURN_IF_ERROR(CheckHead(lock, entry));
  return Busy(id);
}

absl::Status SessionStore::Impl::CheckHead(Lock& lock, Entry& entry) {
  const std::string id(entry.id());
  while (entry.head.in_memory || entry.head.below) {
    const Kept head = entry.head;
    lock.unlock();
    const absl::Status whole = ReadWhole(head).status();
    lock.lock();
    if (!IsLost(whole)) return whole.ok() ? whole : About(id, whole);
    lock.unlock();
    PutAside(id, head, whole);
    lock.lock();
    index.Place(entry, /*in_memory=*/false, head.in_memory && head.below);
  }
  return FallBack(lock, entry);
}

absl::Status SessionStore::Impl::Explain(std::string_view id, SnapshotKey key,
                                         const absl::Status& failed) {
  return IsLost(failed) ? Recover(id, key) : About(id, failed);
}

}  // namespace fermata
