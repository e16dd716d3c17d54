#include "engine/session/session_store.h"

#include <algorithm>
#include <utility>

#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/page_token.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

constexpr size_t kListBatch =
    64;  // Ids that List takes at a time, so that it never holds up turns.

bool HasLabels(const SessionRecord& record, const std::map<std::string, std::string>& labels) {
  return std::includes(record.labels.begin(), record.labels.end(), labels.begin(), labels.end());
}

void Apply(const SessionStore::UpdateOptions& options, SessionRecord& record) {
  if (options.labels.has_value()) record.labels = *options.labels;
  if (options.ttl.has_value()) record.ttl = *options.ttl;
  if (options.durability.has_value()) record.durability = options.durability;
  if (options.max_checkpoints.has_value()) record.max_checkpoints = options.max_checkpoints;
  if (options.pinned.has_value()) record.pinned = *options.pinned;
}

}  // namespace

absl::StatusOr<std::string> GenerateSessionId() {
  char random[16];
  if (getentropy(random, sizeof(random)) != 0) {
    return absl::InternalError("the system gives no random bytes for a session id");
  }
  return "s-" + absl::BytesToHexString(absl::string_view(random, sizeof(random)));
}

SessionStore::Impl::Impl(SessionStoreOptions options_in, std::unique_ptr<Tier> lower_in)
    : options(std::move(options_in)),
      lower(std::move(lower_in)),
      memory(options.state_bytes, options.memory_bytes),
      index(/*pinned_may_go=*/lower != nullptr) {
  if (lower == nullptr) return;
  eraser = std::make_unique<Batcher<SnapshotKey>>([this](std::vector<SnapshotKey> keys) {
    const absl::Status erased = lower->Erase(keys);
    if (!erased.ok()) Trouble("", erased);  // What is left is erased at the next start.
  });
  committer = std::make_unique<Batcher<Commit>>(
      [this](std::vector<Commit> commits) { WriteCommits(std::move(commits)); });
  mover = std::thread([this] { RunMover(); });
}

SessionStore::Impl::~Impl() {
  if (lower == nullptr) return;
  committer.reset();
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  mover_wanted.notify_all();
  mover.join();
  eraser.reset();
}

void SessionStore::Impl::EndLease(Entry& entry) {
  const std::lock_guard lock(mutex);
  if (entry.settled) {
    index.Release(entry);
    if (Short()) mover_wanted.notify_one();
    return;
  }
  const SnapshotKey key = entry.head.key();
  memory.Erase({&key, 1}).IgnoreError();
  index.Remove(entry);
}

void SessionStore::Impl::EndHold(Entry& entry) {
  {
    const std::lock_guard lock(mutex);
    --entry.holds;
  }
  changed.notify_all();
}

SessionIndex::Entry* SessionStore::Impl::FindLive(std::string_view id, absl::Time now) {
  Entry* entry = index.Find(id);
  if (entry == nullptr || entry->leased || entry->holds > 0 || entry->expiry > now) return entry;
  Drop(*entry);
  ++expirations;
  return nullptr;
}

absl::StatusOr<SessionIndex::Entry*> SessionStore::Impl::Admit(std::string_view id,
                                                               absl::Time now) {
  if (const Entry* existing = FindLive(id, now); existing != nullptr) {
    if (!existing->settled) return Busy(id);
    return ExistingSession(id);
  }
  return &index.Add(id);
}

absl::Status SessionStore::Impl::CheckExpected(const Entry& entry, const Expected& expected) const {
  if (expected.position.value_or(entry.head.at.position) != entry.head.at.position) {
    return PositionMismatch(entry.id(), *expected.position, entry.head.at.position);
  }
  if (expected.revision.value_or(entry.revision) != entry.revision) {
    return RevisionMismatch(entry.id(), *expected.revision, entry.revision);
  }
  return absl::OkStatus();
}

absl::Status SessionStore::Impl::Missing(std::string_view id) const {
  return MissingSession(id, tombstones.Has(id));
}

absl::Status SessionStore::Impl::Busy(std::string_view id) const {
  return BusySession(id, options.retry_after);
}

absl::Status SessionStore::Impl::About(std::string_view id, const absl::Status& status) const {
  return AboutSession(id, status, options.retry_after);
}

absl::StatusOr<SessionStore::Impl::Claim> SessionStore::Impl::Take(std::string_view id,
                                                                   const ClaimOptions& claim) {
  const absl::Time now = options.clock();
  Lock lock(mutex);
  Entry* entry = FindLive(id, now);
  if (entry == nullptr) return Missing(id);
  if (entry->leased) return Busy(id);
  if (entry->damaged && !claim.damaged) return DamagedSession(id, std::nullopt);
  if (entry->pinned && !claim.pinned) return PinnedSession(id);
  FERMATA_RETURN_IF_ERROR(CheckExpected(*entry, claim.expected));
  index.Lease(*entry);
  changed.wait(lock, [entry] { return entry->holds == 0; });
  return Claim(this, entry);
}

absl::StatusOr<SessionStore::Impl::Claim> SessionStore::Impl::TakeNew(std::string_view id) {
  const absl::Time now = options.clock();
  const std::lock_guard lock(mutex);
  FERMATA_ASSIGN_OR_RETURN(Entry * entry, Admit(id, now));
  return Claim(this, entry);
}

absl::StatusOr<SessionRecord> SessionStore::Impl::RecordAt(const Kept& kept) const {
  if (kept.in_memory) return memory.Record(kept.key());
  if (lower != nullptr) return lower->Record(kept.key());
  return DamagedState(0);
}

absl::StatusOr<SessionRecord> SessionStore::Impl::HeadRecord(const Entry& entry) const {
  FERMATA_ASSIGN_OR_RETURN(SessionRecord record, RecordAt(entry.head));
  record.revision = entry.revision;
  record.checkpoints.clear();
  for (const Kept& kept : entry.checkpoints) record.checkpoints.push_back(kept.at);
  return record;
}

absl::StatusOr<SessionRecord> SessionStore::Impl::ReadRecord(std::string_view id) {
  SnapshotKey last = 0;
  for (;;) {
    Entry seen;
    {
      const absl::Time now = options.clock();
      const std::lock_guard lock(mutex);
      const Entry* entry = FindLive(id, now);
      if (entry == nullptr || !entry->settled || entry->going) return Missing(id);
      if (entry->damaged) return DamagedSession(id, std::nullopt);
      seen = *entry;
      if (seen.head.in_memory) {
        absl::StatusOr<SessionRecord> record = HeadRecord(seen);
        if (!record.ok()) return About(id, record.status());
        return record;
      }
    }
    absl::StatusOr<SessionRecord> record = HeadRecord(seen);
    if (record.ok()) return record;
    // Another may have come in its place meanwhile.
    if (!absl::IsNotFound(record.status())) return About(id, record.status());
    if (std::exchange(last, seen.head.key()) == seen.head.key()) {
      // Whoever has it leased may be mending it.
      return seen.leased ? Busy(id) : About(id, DamagedState(0));
    }
  }
}

SessionStore::SessionStore(SessionStoreOptions options)
    : impl_(std::make_unique<Impl>(std::move(options), nullptr)) {}

SessionStore::SessionStore(SessionStoreOptions options, DiskTier::Opened disk)
    : SessionStore(std::move(options), std::move(disk.tier), std::move(disk.snapshots)) {
  impl_->SkipKeys(disk.last_key);
}

SessionStore::SessionStore(SessionStoreOptions options, std::unique_ptr<Tier> lower,
                           std::vector<DiskTier::Found> found)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(lower))) {
  impl_->Adopt(std::move(found));
}

SessionStore::~SessionStore() = default;

absl::StatusOr<SessionRecord> SessionStore::Create(const CreateOptions& options) {
  std::string id = options.id;
  if (id.empty()) {
    FERMATA_ASSIGN_OR_RETURN(id, GenerateSessionId());
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  if (options.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*options.ttl, "ttl"));
  FERMATA_RETURN_IF_ERROR(impl_->CheckSettings(options.durability, options.max_checkpoints));
  FERMATA_ASSIGN_OR_RETURN(const Impl::Claim claim, impl_->TakeNew(id));
  SessionRecord record = impl_->NewRecord(id, impl_->options.clock());
  record.labels = options.labels;
  if (options.ttl.has_value()) record.ttl = options.ttl;
  record.durability = options.durability;
  record.max_checkpoints = options.max_checkpoints;
  FERMATA_RETURN_IF_ERROR(impl_->Establish(*claim, record, {}));
  return record;
}

absl::StatusOr<SessionRecord> SessionStore::Get(std::string_view id) const {
  absl::StatusOr<SessionRecord> record = impl_->ReadRecord(id);
  if (!absl::IsDataLoss(record.status())) return record;
  const absl::Status told = impl_->Recover(id, 0);
  if (!absl::IsAborted(told)) return told;
  return impl_->ReadRecord(id);
}

absl::Status SessionStore::Delete(std::string_view id, const Expected& expected) {
  FERMATA_ASSIGN_OR_RETURN(Impl::Claim claim,
                           impl_->Take(id, {.expected = expected, .damaged = true}));
  std::vector<SnapshotKey> keys;
  for (const Kept& kept : claim->checkpoints) keys.push_back(kept.key());
  if (claim->stale.key != 0) keys.push_back(claim->stale.key);
  keys.push_back(claim->head.key());
  // The newest last: it must not leave an older one behind as the session's.
  std::sort(keys.begin(), keys.end());
  Impl::Lock lock(impl_->mutex);
  if (impl_->lower != nullptr) {
    claim->going = true;
    lock.unlock();
    const absl::Status erased = impl_->lower->Erase(keys);
    lock.lock();
    claim->going = false;
    if (!erased.ok()) {
      lock.unlock();
      impl_->Trouble(id, erased);
      return impl_->About(id, erased);
    }
  }
  impl_->memory.Erase(keys).IgnoreError();
  impl_->index.Remove(*claim);
  claim.Forget();
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> SessionStore::Update(std::string_view id,
                                                   const UpdateOptions& options) {
  if (options.labels.has_value()) {
    FERMATA_RETURN_IF_ERROR(ValidateLabels(*options.labels, "labels"));
  }
  if (options.ttl.has_value() && options.ttl->has_value()) {
    FERMATA_RETURN_IF_ERROR(ValidateTtl(**options.ttl, "ttl"));
  }
  FERMATA_RETURN_IF_ERROR(impl_->CheckSettings(options.durability, options.max_checkpoints));
  absl::Status failed;
  SnapshotKey head;
  {
    FERMATA_ASSIGN_OR_RETURN(const Impl::Claim claim,
                             impl_->Take(id, {.expected = options.expected, .pinned = true}));
    head = claim->head.key();
    absl::StatusOr<SessionRecord> record = impl_->HeadRecord(*claim);
    failed = record.status();
    if (record.ok()) {
      Apply(options, *record);
      record->update_time = impl_->options.clock();
      ++record->revision;
      failed = impl_->PutAgain(*claim, claim->head, *record, claim->checkpoints);
      if (failed.ok()) return record;
    }
  }
  return impl_->Explain(id, head, failed);
}

absl::StatusOr<SessionStore::Page> SessionStore::List(const ListOptions& options) const {
  if (options.page_size < 1) return InvalidField("page_size", "must be at least 1");
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  FERMATA_ASSIGN_OR_RETURN(std::string last, DecodePageToken(options.page_token, options.labels));
  const size_t page_size = std::min(options.page_size, kMaxPageSize);
  const absl::Time now = impl_->options.clock();
  Page page;
  for (;;) {
    std::vector<std::string> ids;
    {
      const std::lock_guard lock(impl_->mutex);
      ids = impl_->index.After(last, kListBatch, now);
    }
    if (ids.empty()) return page;
    for (std::string& id : ids) {
      absl::StatusOr<SessionRecord> record = impl_->ReadRecord(id);
      if (absl::IsNotFound(record.status())) continue;  // It has gone meanwhile.
      // Damage is told to whoever asks for the session.
      if (absl::IsDataLoss(record.status()) || absl::IsAborted(record.status())) continue;
      if (!record.ok()) return record.status();
      if (!HasLabels(*record, options.labels)) continue;
      if (page.sessions.size() == page_size) {
        page.next_page_token = EncodePageToken(page.sessions.back().id, options.labels);
        return page;
      }
      page.sessions.push_back(*std::move(record));
    }
    last = std::move(ids.back());
  }
}

void SessionStore::DropExpired() {
  const absl::Time now = impl_->options.clock();
  const std::lock_guard lock(impl_->mutex);
  impl_->DropExpired(now);
}

SessionStoreStats SessionStore::stats() const {
  SessionStoreStats stats;
  stats.tiers.push_back({.tier = impl_->memory.name(), .usage = impl_->memory.usage()});
  if (impl_->lower != nullptr) {
    stats.tiers.push_back({.tier = impl_->lower->name(), .usage = impl_->lower->usage()});
  }
  stats.capacity = impl_->memory.capacity();
  stats.damaged = impl_->damaged;
  const std::lock_guard lock(impl_->mutex);
  const SessionIndex& index = impl_->index;
  stats.sessions = index.sessions();
  stats.positions = index.positions();
  stats.checkpoints = index.checkpoints();
  stats.checkpoint_bytes = index.checkpoint_states() * impl_->options.state_bytes;
  stats.tiers.front().sessions = index.in_memory();
  if (impl_->lower != nullptr) stats.tiers.back().sessions = index.sessions() - index.in_memory();
  stats.evictions = impl_->evictions;
  stats.expirations = impl_->expirations;
  stats.moves_down_pressure = impl_->moves_down_pressure;
  stats.moves_down_drain = impl_->moves_down_drain;
  stats.moves_up_turn = impl_->moves_up_turn;
  return stats;
}

}  // namespace fermata
