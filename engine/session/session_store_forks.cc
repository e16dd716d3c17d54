// Forks and rewinds: snapshots that go on from where a session stands, or stood.

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {

const Kept* SessionStore::Impl::FindPlace(const Entry& entry, const SessionStore::Place& place) {
  const Checkpoint& now = entry.head.at;
  const auto is_there = [&](const Checkpoint& at) {
    if (place.turns.has_value()) return at.turns == *place.turns;
    if (place.position.has_value()) return at.position == *place.position;
    if (place.before_last_turn) return at.turns + 1 == now.turns;
    return true;
  };
  if (is_there(now)) return &entry.head;
  const auto it = std::find_if(entry.checkpoints.rbegin(), entry.checkpoints.rend(),
                               [&](const Kept& kept) { return is_there(kept.at); });
  return it == entry.checkpoints.rend() ? nullptr : &*it;
}

SessionRecord SessionStore::Impl::TakenBack(const SessionRecord& now, const SessionRecord& then) {
  SessionRecord record = now;
  record.position = then.position;
  record.pending_token = then.pending_token;
  record.sampler_memory = then.sampler_memory;
  record.turns = then.turns;
  return record;
}

SessionRecord SessionStore::Impl::ForkOf(const SessionRecord& source,
                                         const CreateOptions& target) const {
  SessionRecord record = source;
  record.id = target.id;
  record.labels = target.labels;
  record.create_time = record.update_time = options.clock();
  if (target.ttl.has_value()) record.ttl = target.ttl;
  if (target.durability.has_value()) record.durability = target.durability;
  if (target.max_checkpoints.has_value()) record.max_checkpoints = target.max_checkpoints;
  record.parent_id = source.id;
  record.parent_position = source.position;
  record.revision = 0;
  record.pinned = false;
  record.checkpoints.clear();
  return record;
}

absl::StatusOr<SessionStore::Impl::Source> SessionStore::Impl::OpenSource(
    std::string_view id, const SessionStore::Place& place, const Expected& expected, bool block) {
  Source source;
  Kept head;
  {
    const absl::Time now = options.clock();
    const std::lock_guard lock(mutex);
    Entry* entry = FindLive(id, now);
    if (entry == nullptr || !entry->settled) return Missing(id);
    if (entry->leased) return Busy(id);
    if (entry->damaged) return DamagedSession(id, std::nullopt);
    FERMATA_RETURN_IF_ERROR(CheckExpected(*entry, expected));
    const Kept* found = FindPlace(*entry, place);
    if (found == nullptr) return NoCheckpoint(id);
    if (!block && !(found->in_memory && entry->head.in_memory)) return source;
    source.place = *found;
    head = entry->head;
    ++entry->holds;
    source.hold = Hold(this, entry);
  }
  SnapshotKey read = source.place.key();
  absl::StatusOr<SessionRecord> then = RecordAt(source.place);
  absl::StatusOr<SessionRecord> now = then;
  if (then.ok() && read != head.key()) {
    read = head.key();
    now = RecordAt(head);
  }
  if (!now.ok()) {
    source.hold = Hold();
    return Explain(id, read, now.status());
  }
  source.record = TakenBack(*now, *then);
  return source;
}

absl::StatusOr<bool> SessionStore::Impl::Seat(Entry& child, const SessionRecord& record,
                                              const Kept& place, bool block) {
  const Kept head{.at = CheckpointOf({NextKey(), place.state()}, record), .in_memory = true};
  Lock lock(mutex);
  const absl::Status loaded = LoadState(lock, place, record, head.at.snapshot, block);
  if (absl::IsCancelled(loaded)) return false;
  FERMATA_RETURN_IF_ERROR(loaded);
  child.head = head;
  return true;
}

absl::StatusOr<SessionRecord> SessionStore::Fork(std::string_view source_id,
                                                 const ForkOptions& options) {
  CreateOptions target = options.target;
  if (target.id.empty()) {
    FERMATA_ASSIGN_OR_RETURN(target.id, GenerateSessionId());
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(target.id, "id"));
  FERMATA_RETURN_IF_ERROR(ValidateLabels(target.labels, "labels"));
  if (target.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*target.ttl, "ttl"));
  FERMATA_RETURN_IF_ERROR(impl_->CheckSettings(target.durability, target.max_checkpoints));
  FERMATA_ASSIGN_OR_RETURN(
      Impl::Source source,
      impl_->OpenSource(source_id, options.place, options.expected, /*block=*/true));
  const SnapshotKey read = source.place.key();
  absl::StatusOr<SessionRecord> made = impl_->MakeFork(source, target);
  if (!absl::IsDataLoss(made.status())) return made;
  source.hold = {};
  return impl_->Explain(source_id, read, made.status());
}

absl::StatusOr<SessionRecord> SessionStore::Impl::MakeFork(const Source& source,
                                                           const CreateOptions& target) {
  FERMATA_ASSIGN_OR_RETURN(const Claim child, TakeNew(target.id));
  const SessionRecord record = ForkOf(source.record, target);
  const bool durable = DurabilityOf(record) == Durability::kDisk;
  if (source.place.in_memory || !durable) {
    FERMATA_RETURN_IF_ERROR(Seat(*child, record, source.place, /*block=*/true).status());
  }
  Kept head = child->head;
  if (!head.in_memory) head.at = CheckpointOf({NextKey(), source.place.state()}, record);
  if (durable) {
    NewSnapshot snapshot{head.at.snapshot, &record, {}};
    if (!source.place.below) {
      FERMATA_ASSIGN_OR_RETURN(snapshot.state, memory.View(source.place.key()));
    }
    if (const absl::Status put = PutBelow({&snapshot, 1}).front(); !put.ok()) {
      return Failed(record.id, put);
    }
    head.below = true;
  }
  const std::lock_guard lock(mutex);
  Publish(*child, record, head, {});
  return record;
}

absl::StatusOr<SessionRecord> SessionStore::Rewind(std::string_view id, const Place& place,
                                                   const Expected& expected) {
  absl::Status failed;
  SnapshotKey read;
  {
    FERMATA_ASSIGN_OR_RETURN(const Impl::Claim claim, impl_->Take(id, {.expected = expected}));
    const Kept* found = Impl::FindPlace(*claim, place);
    if (found == nullptr) return NoCheckpoint(id);
    const Kept to = *found;
    read = claim->head.key();
    absl::StatusOr<SessionRecord> now = impl_->HeadRecord(*claim);
    if (now.ok() && to.key() == read) return now;
    failed = now.status();
    if (now.ok()) {
      // The later ones go, so this one must be whole.
      read = to.key();
      const absl::StatusOr<SessionRecord> then = impl_->ReadWhole(to);
      failed = then.status();
      if (then.ok()) {
        SessionRecord record = Impl::TakenBack(*now, *then);
        record.update_time = impl_->options.clock();
        ++record.revision;
        std::vector<Kept> earlier = claim->checkpoints;
        std::erase_if(earlier, [&](const Kept& kept) { return kept.key() >= to.key(); });
        failed = impl_->PutAgain(*claim, to, record, std::move(earlier));
        if (failed.ok()) return record;
      }
    }
  }
  return impl_->Explain(id, read, failed);
}

}  // namespace fermata
