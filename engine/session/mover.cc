// Moves between the tiers: down when memory is short and when the server stops, up for a turn.

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

constexpr size_t kMostMoves = 16;          // Of one round, so that who waits need not for long.
constexpr int64_t kMostFree = 32;          // Slots that the mover keeps free.
constexpr std::chrono::seconds kPause(1);  // After a round that made no room.

}  // namespace

absl::Status SessionStore::Impl::Descent::first_error() const {
  for (const absl::Status& status : statuses) FERMATA_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

SessionStore::Impl::Descent SessionStore::Impl::PlanDescent(Entry& entry) {
  Descent descent{.entry = &entry};
  for (const Kept& kept : entry.checkpoints) {
    descent.checkpoints.push_back(kept.at);
    if (!kept.below) descent.snapshots.push_back(kept);
  }
  if (!entry.head.below) descent.snapshots.push_back(entry.head);
  descent.statuses.resize(descent.snapshots.size());
  return descent;
}

void SessionStore::Impl::WriteBelow(std::span<Descent> descents) {
  std::vector<SessionRecord> records;
  std::vector<NewSnapshot> snapshots;
  std::vector<absl::Status*> statuses;
  for (Descent& descent : descents) {
    for (size_t i = 0; i < descent.snapshots.size(); ++i) {
      const SnapshotKey key = descent.snapshots[i].key();
      absl::StatusOr<SessionRecord> record = memory.Record(key);
      const auto state = memory.View(key);
      descent.statuses[i] = record.ok() ? state.status() : record.status();
      if (!descent.statuses[i].ok()) continue;
      record->checkpoints = descent.checkpoints;
      std::erase_if(record->checkpoints,
                    [key](const Checkpoint& at) { return at.snapshot.key >= key; });
      records.push_back(*std::move(record));
      snapshots.push_back({descent.snapshots[i].at.snapshot, nullptr, *state});
      statuses.push_back(&descent.statuses[i]);
    }
  }
  if (snapshots.empty()) return;
  for (size_t i = 0; i < snapshots.size(); ++i) snapshots[i].record = &records[i];
  const std::vector<absl::Status> put = PutBelow(snapshots);
  for (size_t i = 0; i < put.size(); ++i) *statuses[i] = put[i];
}

void SessionStore::Impl::NoteBelow(const Descent& descent) {
  Entry& entry = *descent.entry;
  std::vector<Kept> checkpoints = entry.checkpoints;
  for (size_t i = 0; i < descent.snapshots.size(); ++i) {
    if (!descent.statuses[i].ok()) continue;
    const SnapshotKey key = descent.snapshots[i].key();
    for (Kept& kept : checkpoints) kept.below = kept.below || kept.key() == key;
    if (entry.head.key() == key) index.Place(entry, entry.head.in_memory, /*below=*/true);
  }
  index.Keep(entry, std::move(checkpoints));
  if (entry.stale.key != 0) EraseBelow(entry, {std::exchange(entry.stale, {})});
}

absl::Status SessionStore::Impl::WriteBelow(Lock& lock, Entry& entry) {
  Descent descent = PlanDescent(entry);
  lock.unlock();
  WriteBelow({&descent, 1});
  lock.lock();
  NoteBelow(descent);
  const absl::Status written = descent.first_error();
  return written.ok() ? written : About(entry.id(), written);
}

absl::StatusOr<bool> SessionStore::Impl::BringUp(Lock& lock, Entry& entry, bool block,
                                                 std::string_view& from) {
  const std::string id(entry.id());
  from = memory.name();
  const Kept head = entry.head;
  if (head.in_memory) {
    lock.unlock();
    const absl::Status whole = memory.View(head.key()).status();
    lock.lock();
    if (whole.ok()) return true;
    if (!block) return false;
    FERMATA_RETURN_IF_ERROR(CheckHead(lock, entry));
  }
  if (!block) return false;
  from = lower->name();
  lock.unlock();
  const absl::StatusOr<SessionRecord> record = lower->Record(head.key());
  lock.lock();
  const absl::Status read =
      record.ok() ? LoadState(lock, entry.head, *record, head.at.snapshot, block) : record.status();
  if (absl::IsDataLoss(read) || absl::IsNotFound(read)) {
    FERMATA_RETURN_IF_ERROR(CheckHead(lock, entry));
    return Busy(id);  // It can be read again.
  }
  if (!read.ok()) return Failed(id, read);
  index.Place(entry, /*in_memory=*/true, /*below=*/true);
  ++moves_up_turn;
  return true;
}

absl::Status SessionStore::Impl::LoadState(Lock& lock, const Kept& place,
                                           const SessionRecord& record, const SnapshotName& name,
                                           bool block) {
  Room room;
  for (;;) {
    const bool shares = place.in_memory || memory.HasState(place.state());
    if (!shares && !block) return absl::CancelledError();
    room = Room();
    FERMATA_ASSIGN_OR_RETURN(room, TakeRoom(lock, !shares, block));
    if (!room.valid()) return absl::CancelledError();
    if (!shares) break;
    if (place.in_memory) {
      memory.ShareWith(place.key(), name, record, std::move(room));
      return absl::OkStatus();
    }
    // It may have gone while room was made.
    if (memory.Share(name, record, std::move(room))) return absl::OkStatus();
  }
  lock.unlock();
  const absl::Status read = lower->State(place.key(), room.state());
  if (read.ok()) memory.Put(name, record, StateChecksum(room.state()), std::move(room));
  lock.lock();
  return read;
}

bool SessionStore::Impl::Short() const {
  if (lower == nullptr) return false;
  return !memory.HasRoomFor(std::min(memory.capacity() / 8, kMostFree));
}

absl::Status SessionStore::Impl::AwaitMove(Lock& lock) {
  const uint64_t before = rounds;
  ++waiting;
  asked = true;
  mover_wanted.notify_one();
  changed.wait(lock, [&] { return rounds != before; });
  --waiting;
  return move_error;
}

void SessionStore::Impl::RunMover() {
  Lock lock(mutex);
  for (;;) {
    if (!move_error.ok()) {
      mover_wanted.wait_for(lock, kPause, [this] { return stopping || asked; });
    } else {
      mover_wanted.wait(
          lock, [this] { return stopping || asked || (Short() && index.Victim() != nullptr); });
    }
    if (stopping) return;
    if (asked || Short()) MoveRound(lock);
  }
}

void SessionStore::Impl::MoveRound(Lock& lock) {
  asked = false;
  moving = true;
  // When nothing can be written, what is below already can still make room.
  const bool failing = !move_error.ok();
  move_error = absl::OkStatus();
  bool moved = failing && MoveSome(lock, /*clean=*/true, move_error);
  if (!moved) moved = MoveSome(lock, /*clean=*/false, move_error);
  if (!moved && !move_error.ok() && !failing) moved = MoveSome(lock, /*clean=*/true, move_error);
  if (moved) move_error = absl::OkStatus();
  moving = false;
  ++rounds;
  changed.notify_all();
}

bool SessionStore::Impl::MoveSome(Lock& lock, bool clean, absl::Status& error) {
  const int64_t wanted = waiting + std::max<int64_t>(memory.capacity() / 8, 1);
  std::vector<Descent> descents;
  while (descents.size() < std::min<size_t>(kMostMoves, wanted)) {
    Entry* victim = index.Victim(clean);
    if (victim == nullptr) break;
    ++victim->holds;
    descents.push_back(PlanDescent(*victim));
  }
  lock.unlock();
  WriteBelow(descents);
  lock.lock();
  bool moved = false;
  for (const Descent& descent : descents) {
    Entry& entry = *descent.entry;
    NoteBelow(descent);
    --entry.holds;
    const absl::Status written = descent.first_error();
    if (!written.ok()) {
      if (absl::IsDataLoss(written)) {
        // To be told to whoever wants that session; the others only miss the room.
        error.Update(memory.Full());
      } else {
        if (!absl::IsResourceExhausted(written)) Trouble(entry.id(), written);
        error.Update(written);
      }
      index.Touch(entry);
    } else if (entry.leased || entry.holds > 0) {
      moved = true;  // But somebody wants it.
    } else {
      moved = true;
      LeaveMemory(entry);
      ++moves_down_pressure;
    }
  }
  return moved;
}

void SessionStore::Impl::LeaveMemory(Entry& entry) {
  std::vector<SnapshotKey> keys = {entry.head.key()};
  std::vector<Kept> checkpoints = entry.checkpoints;
  for (Kept& kept : checkpoints) {
    keys.push_back(kept.key());
    kept.in_memory = false;
  }
  memory.Erase(keys).IgnoreError();
  index.Keep(entry, std::move(checkpoints));
  index.Place(entry, /*in_memory=*/false, entry.head.below);
}

absl::Status SessionStore::Flush() {
  if (impl_->lower == nullptr) return absl::OkStatus();
  impl_->committer->Drain();
  std::vector<std::string> ids;
  Impl::Lock lock(impl_->mutex);
  impl_->index.ForEach([&ids](Impl::Entry& entry) {
    if (entry.in_memory() && !entry.clean()) ids.emplace_back(entry.id());
  });
  absl::Status first;
  std::vector<Impl::Descent> descents;
  for (size_t i = 0; i < ids.size(); ++i) {
    Impl::Entry* entry = nullptr;
    // The mover may be at it.
    impl_->changed.wait(lock, [&] {
      entry = impl_->index.Find(ids[i]);
      return entry == nullptr || entry->holds == 0;
    });
    if (entry != nullptr && !entry->leased && !entry->clean()) {
      ++entry->holds;
      descents.push_back(impl_->PlanDescent(*entry));
    }
    if (descents.size() < kMostMoves && i + 1 < ids.size()) continue;
    first.Update(impl_->Drain(lock, std::exchange(descents, {})));
  }
  lock.unlock();
  impl_->eraser->Drain();
  return first;
}

absl::Status SessionStore::Impl::Drain(Lock& lock, std::vector<Descent> descents) {
  absl::Status first;
  lock.unlock();
  WriteBelow(descents);
  lock.lock();
  for (const Descent& descent : descents) {
    NoteBelow(descent);
    --descent.entry->holds;
    const absl::Status written = descent.first_error();
    if (written.ok()) ++moves_down_drain;
    if (!written.ok()) first.Update(About(descent.entry->id(), written));
  }
  changed.notify_all();
  return first;
}

}  // namespace fermata
