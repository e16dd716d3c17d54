// Turns: from Begin to the commit.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "fermata: %s\n", what);
  std::abort();
}

}  // namespace

absl::StatusOr<SessionStore::Lease> SessionStore::Begin(const BeginOptions& options) {
  auto lease = std::make_unique<Lease::Impl>();
  lease->store = impl_.get();
  lease->options = options;
  std::string& id = lease->options.id;
  if (id.empty() && options.create_if_missing) {
    FERMATA_ASSIGN_OR_RETURN(id, GenerateSessionId());
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  if (!options.fork_from.empty()) {
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(options.fork_from, "fork_from"));
  }
  if (options.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*options.ttl, "ttl"));
  FERMATA_RETURN_IF_ERROR(impl_->CheckSettings(options.durability, options.max_checkpoints));
  const absl::Time now = impl_->options.clock();

  const std::lock_guard lock(impl_->mutex);
  Impl::Entry* entry = impl_->FindLive(id, now);
  if (entry != nullptr) {
    if (entry->leased) return impl_->Busy(id);
    if (entry->damaged) return DamagedSession(id, std::nullopt);
    if (entry->pinned) return PinnedSession(id);
    FERMATA_RETURN_IF_ERROR(impl_->CheckExpected(*entry, {.position = options.expected_position}));
    impl_->index.Lease(*entry);
  } else {
    if (!options.create_if_missing) return impl_->Missing(id);
    int64_t position = 0;
    if (!options.fork_from.empty()) {
      const Impl::Entry* source = impl_->FindLive(options.fork_from, now);
      if (source == nullptr || !source->settled) return impl_->Missing(options.fork_from);
      position = source->head.at.position;
    }
    if (options.expected_position.value_or(position) != position) {
      return PositionMismatch(id, *options.expected_position, position);
    }
    entry = &impl_->index.Add(id);
    lease->is_new = true;
  }
  lease->claim = Impl::Claim(impl_.get(), entry);
  return Lease(std::move(lease));
}

absl::StatusOr<bool> SessionStore::Lease::Impl::Fetch(bool block) {
  if (fetched) return true;
  if (is_new && !options.fork_from.empty()) return FetchFork(block);
  const absl::Time start = absl::Now();
  SessionStore::Impl::Lock lock(store->mutex);
  if (is_new) {
    auto taken = store->TakeRoom(lock, /*with_state=*/true, block);
    if (!taken.ok()) return store->About(options.id, taken.status());
    room = *std::move(taken);
    if (!room.valid()) return false;
    record = store->NewRecord(options.id, store->options.clock());
    if (options.ttl.has_value()) record.ttl = options.ttl;
    record.durability = options.durability;
    record.max_checkpoints = options.max_checkpoints;
    durable = store->DurabilityOf(record) == Durability::kDisk;
    fetched = true;
    return true;
  }
  if (claim->holds > 0) {
    if (!block) return false;
    store->changed.wait(lock, [this] { return claim->holds == 0; });
  }
  std::string_view from;
  FERMATA_ASSIGN_OR_RETURN(const bool up, store->BringUp(lock, *claim, block, from));
  if (!up) return false;
  auto head = store->HeadRecord(*claim);
  if (!head.ok()) return store->About(options.id, head.status());
  record = *std::move(head);
  durable = store->lower != nullptr &&
            options.durability.value_or(store->DurabilityOf(record)) == Durability::kDisk;
  FERMATA_ASSIGN_OR_RETURN(fetched, ReserveForCommit(lock, block));
  lock.unlock();
  if (fetched && store->options.observer != nullptr) {
    store->options.observer->Restored(from, absl::Now() - start);
  }
  return fetched;
}

// The commit writes over the old state, unless somebody may still want that.
absl::StatusOr<bool> SessionStore::Lease::Impl::ReserveForCommit(std::unique_lock<std::mutex>& lock,
                                                                 bool block) {
  const Kept& old = claim->head;
  const auto reserve = [&](bool with_state, bool may_wait) -> absl::StatusOr<bool> {
    auto taken = store->TakeRoom(lock, with_state, may_wait);
    if (!taken.ok()) return store->About(options.id, taken.status());
    room = *std::move(taken);
    return room.valid();
  };
  // From here on nobody comes to share what is to be written over.
  const bool shared = !store->memory.Isolate(old.key());
  keeps_checkpoint = !is_new && store->MaxCheckpointsOf(record) > 0;
  const bool must_stay = !is_new && (keeps_checkpoint || durable) && !old.below;
  if (shared || !must_stay) return reserve(shared, block);

  absl::StatusOr<bool> reserved = reserve(/*with_state=*/true, /*may_wait=*/false);
  if (reserved.ok() && *reserved) return true;
  if (store->lower != nullptr) {
    if (!block) return false;
    // Below it stays, too, and then its slot can be used again.
    FERMATA_RETURN_IF_ERROR(store->WriteBelow(lock, *claim));
    return reserve(/*with_state=*/false, block);
  }
  // The oldest checkpoints go for the new one; without any there is no room for one.
  while (!reserved.ok() && !claim->checkpoints.empty()) {
    std::vector<Kept> checkpoints = claim->checkpoints;
    const SnapshotKey oldest = checkpoints.front().key();
    checkpoints.erase(checkpoints.begin());
    store->index.Keep(*claim, std::move(checkpoints));
    store->memory.Erase({&oldest, 1}).IgnoreError();
    record.checkpoints.erase(record.checkpoints.begin());
    reserved = reserve(/*with_state=*/true, block);
  }
  if (reserved.ok()) return reserved;
  keeps_checkpoint = false;
  return reserve(/*with_state=*/false, block);
}

absl::StatusOr<bool> SessionStore::Lease::Impl::FetchFork(bool block) {
  FERMATA_ASSIGN_OR_RETURN(
      SessionStore::Impl::Source source,
      store->OpenSource(options.fork_from, {}, {.position = options.expected_position}, block));
  if (!source.valid()) return false;
  record = store->ForkOf(source.record, {.id = options.id,
                                         .labels = {},
                                         .ttl = options.ttl,
                                         .durability = options.durability,
                                         .max_checkpoints = options.max_checkpoints});
  durable = store->DurabilityOf(record) == Durability::kDisk;
  if (!claim->head.in_memory) {
    const absl::StatusOr<bool> seated = store->Seat(*claim, record, source.place, block);
    if (!seated.ok()) {
      source.hold = {};
      return absl::IsDataLoss(seated.status())
                 ? store->Explain(options.fork_from, source.place.key(), seated.status())
                 : store->About(options.id, seated.status());
    }
    if (!*seated) return false;
  }
  SessionStore::Impl::Lock lock(store->mutex);
  FERMATA_ASSIGN_OR_RETURN(fetched, ReserveForCommit(lock, block));
  return fetched;
}

SessionStore::Lease::Lease() = default;
SessionStore::Lease::Lease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SessionStore::Lease::Lease(Lease&&) noexcept = default;
SessionStore::Lease& SessionStore::Lease::operator=(Lease&&) noexcept = default;
SessionStore::Lease::~Lease() = default;

bool SessionStore::Lease::valid() const { return impl_ != nullptr; }

absl::Status SessionStore::Lease::Fetch() { return impl_->Fetch(/*block=*/true).status(); }

absl::StatusOr<bool> SessionStore::Lease::TryFetch() { return impl_->Fetch(/*block=*/false); }

bool SessionStore::Lease::creates() const { return impl_->is_new; }

const SessionRecord& SessionStore::Lease::record() const { return impl_->record; }

absl::Status SessionStore::Lease::ReadState(std::span<std::byte> state) const {
  const SnapshotKey key = impl_->claim->head.key();
  if (key == 0) {
    std::fill(state.begin(), state.end(), std::byte{0});
    return absl::OkStatus();
  }
  const absl::Status read = impl_->store->memory.State(key, state);
  return read.ok() ? read : impl_->store->About(impl_->options.id, read);
}

void SessionStore::Lease::Commit(const SessionRecord& record, std::span<const std::byte> state,
                                 Committed done) {
  const std::unique_ptr<Impl> lease = std::move(impl_);
  if (!lease->fetched) Die("a commit of a turn that was not fetched");
  SessionStore::Impl& store = *lease->store;
  SessionStore::Impl::Commit commit;
  SessionRecord& next = commit.record;
  next = lease->record;  // A copy: `record` may be that very one.
  next.position = record.position;
  next.pending_token = record.pending_token;
  next.sampler_memory = record.sampler_memory;
  next.update_time = store.options.clock();
  if (lease->options.ttl.has_value()) next.ttl = lease->options.ttl;
  ++next.turns;
  ++next.revision;

  // Nobody else touches the entry of a lease that was fetched.
  const Kept& old = lease->claim->head;
  commit.room = std::move(lease->room);
  commit.replaces = commit.room.state().empty();
  const SnapshotKey key = store.NextKey();
  commit.head = {.at = CheckpointOf({key, key}, next), .in_memory = true, .below = lease->durable};
  commit.checkpoints = lease->claim->checkpoints;
  if (lease->keeps_checkpoint) {
    commit.checkpoints.push_back(old);
    if (commit.replaces) commit.checkpoints.back().in_memory = false;
  }
  store.Trim(commit.checkpoints, next);
  if (!CheckRecord(next).ok()) Die("a commit of a record that can not be");

  const std::span<std::byte> slot =
      commit.replaces ? store.memory.Overwrite(old.key()) : commit.room.state();
  if (state.size() != slot.size()) Die("a commit of a state of another size");
  std::copy(state.begin(), state.end(), slot.begin());
  commit.state = slot;
  commit.claim = std::move(lease->claim);
  commit.done = std::move(done);
  if (!lease->durable) return store.Finish(std::move(commit), absl::OkStatus());
  std::vector<SessionStore::Impl::Commit> one;
  one.push_back(std::move(commit));
  store.committer->Add(std::move(one));
}

void SessionStore::Impl::WriteCommits(std::vector<Commit> commits) {
  const absl::Time start = absl::Now();
  std::vector<NewSnapshot> snapshots;
  snapshots.reserve(commits.size());
  for (const Commit& commit : commits) {
    snapshots.push_back({commit.head.at.snapshot, &commit.record, commit.state});
  }
  const std::vector<absl::Status> statuses = PutBelow(snapshots);
  if (options.observer != nullptr) {
    options.observer->Persisted(static_cast<int64_t>(commits.size()), absl::Now() - start);
  }
  for (size_t i = 0; i < commits.size(); ++i) Finish(std::move(commits[i]), statuses[i]);
}

void SessionStore::Impl::Finish(Commit commit, const absl::Status& written) {
  Entry& entry = *commit.claim;
  const SnapshotKey old = entry.head.key();
  absl::StatusOr<SessionRecord> result = commit.record;
  if (written.ok()) {
    const uint64_t checksum = StateChecksum(commit.state);
    const std::lock_guard lock(mutex);
    if (commit.replaces) {
      memory.Replace(old, commit.head.key(), commit.record, checksum, std::move(commit.room));
    } else {
      memory.Put(commit.head.at.snapshot, commit.record, checksum, std::move(commit.room));
    }
    Publish(entry, commit.record, commit.head, std::move(commit.checkpoints));
  } else {
    result = Failed(commit.record.id, written);
    const std::lock_guard lock(mutex);
    if (commit.replaces) {
      memory.Erase({&old, 1}).IgnoreError();
      index.Place(entry, /*in_memory=*/false, entry.head.below);
    }
  }
  commit.claim = Claim();
  commit.room = Room();
  commit.done(std::move(result));
}

}  // namespace fermata
