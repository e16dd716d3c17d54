// How snapshots are written: Put.

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/disk_tier_impl.h"

namespace fermata {
namespace {

constexpr size_t kMaxOpenFiles = 64;
constexpr size_t kMaxSyncing = 16;  // Files, at the same time.

absl::Status Full(const std::string& why) {
  return MakeError(absl::StatusCode::kResourceExhausted, why,
                   {.reason = "DISK_FULL", .metadata = {}, .retry_after = {}});
}

}  // namespace

struct DiskTier::Impl::Write {
  NewSnapshot snapshot;
  absl::Status status;
  bool done = false;
  // As planned.
  StateInfo state;
  std::string head;
  int64_t bytes = 0;
  // While it is written.
  std::string temporary;
  std::unique_ptr<OutputFile> file;

  SnapshotFile Name() const { return {.key = snapshot.name.key, .role = FileRole::kSnapshot}; }
  uint64_t Shard() const { return SnapshotPaths::Shard(snapshot.name.key); }
};

std::vector<absl::Status> DiskTier::Put(std::span<const NewSnapshot> snapshots) {
  std::vector<Impl::Write> writes(snapshots.size());
  for (size_t i = 0; i < snapshots.size(); ++i) {
    Impl::Write& write = writes[i];
    write.snapshot = snapshots[i];
    write.status = impl_->CheckNew(snapshots[i]);
    write.done = !write.status.ok();
    if (!write.done) {
      write.state = {.bytes = impl_->options.state_bytes,
                     .checksum = StateChecksum(snapshots[i].state)};
    }
  }
  // Snapshots whose state another one is about to bring wait for that one to be there for good.
  while (true) {
    const std::vector<Impl::Write*> round = impl_->Plan(writes);
    if (round.empty()) break;
    for (size_t begin = 0; begin < round.size(); begin += kMaxOpenFiles) {
      const size_t count = std::min(kMaxOpenFiles, round.size() - begin);
      const std::span<Impl::Write* const> some(round.data() + begin, count);
      impl_->WriteFiles(some);
      impl_->Publish(some);
    }
  }
  std::vector<absl::Status> statuses;
  statuses.reserve(writes.size());
  for (Impl::Write& write : writes) statuses.push_back(std::move(write.status));
  return statuses;
}

absl::Status DiskTier::Impl::CheckNew(const NewSnapshot& snapshot) const {
  const SnapshotName& name = snapshot.name;
  if (name.key == 0 || name.state == 0 || name.state > name.key) {
    return InvalidField("key", "a snapshot has a key, and a state's that is not higher");
  }
  if (!snapshot.state.empty() && snapshot.state.size() != options.state_bytes) {
    return InvalidField("state", absl::StrCat("must have ", options.state_bytes, " bytes"));
  }
  if (snapshot.record->model_fingerprint != options.model_fingerprint) {
    return InvalidField("model_fingerprint", "is not that of the directory's model");
  }
  return CheckRecord(*snapshot.record);
}

// What of `writes` can be written now. Waits while nothing can, though something is left to do.
std::vector<DiskTier::Impl::Write*> DiskTier::Impl::Plan(std::span<Write> writes) {
  std::unique_lock guard(mutex);
  while (true) {
    std::vector<Write*> round;
    bool waiting = false;
    for (Write& write : writes) {
      if (write.done) continue;
      if (!PlanOne(write)) {
        waiting = true;
      } else if (!write.done) {
        round.push_back(&write);
      }
    }
    if (!round.empty() || !waiting) return round;
    written.wait(guard);
  }
}

// Sets aside what the write needs; it is done when that can not be. False when it has to wait.
bool DiskTier::Impl::PlanOne(Write& write) {
  const SnapshotName& name = write.snapshot.name;
  const auto refuse = [&](absl::Status status) {
    write.status = std::move(status);
    write.done = true;
    return true;
  };
  if (catalog.Find(name.key) != nullptr || being_written.contains(name.key)) {
    return refuse(InvalidField("key", "there is such a snapshot"));
  }
  if (states_being_written.contains(name.state)) return false;
  const DiskCatalog::StateFile* state_file = catalog.FindState(name.state);
  if (state_file == nullptr && write.snapshot.state.size() != options.state_bytes) {
    return refuse(InvalidField("state", "missing, and not there already"));
  }
  write.state.elsewhere = state_file != nullptr;
  if (state_file != nullptr) write.state.checksum = state_file->checksum;
  write.head = EncodeSnapshotHead(name, *write.snapshot.record, write.state);
  write.bytes = catalog.FileBytes(write.head.size(), !write.state.elsewhere);
  if (absl::Status room = CheckRoom(write.bytes); !room.ok()) return refuse(std::move(room));

  being_written.insert(name.key);
  if (write.state.elsewhere) {
    catalog.AddUser(name.state);
  } else {
    states_being_written.insert(name.state);
  }
  catalog.BeginFile(name.key, write.head.size(), !write.state.elsewhere);
  unwritten_bytes += write.bytes;
  return true;
}

absl::Status DiskTier::Impl::CheckRoom(int64_t bytes) const {
  if (options.quota_bytes > 0 && catalog.bytes() + bytes > options.quota_bytes) {
    return Full(absl::StrCat("the disk quota of ", options.quota_bytes, " bytes is used up"));
  }
  if (options.free_space_floor <= 0) return absl::OkStatus();
  FERMATA_ASSIGN_OR_RETURN(const int64_t free, options.files->FreeBytes(options.directory));
  if (free - unwritten_bytes - bytes >= options.free_space_floor) return absl::OkStatus();
  return Full(absl::StrCat("the disk has ", free, " bytes free, of which ",
                           options.free_space_floor, " are to be left"));
}

// Writes all files, each under a temporary name, before it makes the first durable, and gives them
// their names when all are, so that the disk works on all of them at once.
void DiskTier::Impl::WriteFiles(std::span<Write* const> writes) {
  MakeShards(writes);
  for (Write* write : writes) {
    if (write->status.ok()) write->status = WriteTemporary(*write);
  }
  SyncTemporaries(writes);
  for (Write* write : writes) {
    if (write->status.ok()) write->status = NameFile(*write);
  }
  SyncNames(writes);
}

// At the same time: a file system's journal takes as long for many files as for one, if they do not come
// one after another.
void DiskTier::Impl::SyncTemporaries(std::span<Write* const> writes) {
  std::atomic<size_t> next = 0;
  const auto sync = [&] {
    for (size_t i = next++; i < writes.size(); i = next++) {
      if (writes[i]->status.ok()) writes[i]->status = SyncTemporary(*writes[i]);
    }
  };
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(writes.size(), kMaxSyncing)) others.emplace_back(sync);
  sync();
}

void DiskTier::Impl::MakeShards(std::span<Write* const> writes) {
  std::set<uint64_t> missing;
  {
    const std::lock_guard guard(mutex);
    for (const Write* write : writes) {
      if (!shards.contains(write->Shard())) missing.insert(write->Shard());
    }
  }
  if (missing.empty()) return;
  absl::Status made;
  for (const uint64_t shard : missing) {
    if (made.ok()) made = options.files->MakeDirectory(paths.ShardDirectory(shard));
  }
  if (made.ok()) made = options.files->SyncDirectory(options.directory);
  const std::lock_guard guard(mutex);
  if (made.ok()) shards.insert(missing.begin(), missing.end());
  for (Write* write : writes) {
    if (missing.contains(write->Shard())) write->status = made;
  }
}

absl::Status DiskTier::Impl::WriteTemporary(Write& write) {
  write.temporary = paths.Temporary(write.snapshot.name.key, ++attempts);
  FERMATA_ASSIGN_OR_RETURN(write.file, options.files->Create(write.temporary));
  absl::Status status = write.file->Append(std::as_bytes(std::span(write.head)));
  if (status.ok() && !write.state.elsewhere) status = write.file->Append(write.snapshot.state);
  if (status.ok()) {
    write.file->StartSync();
    return status;
  }
  write.file.reset();
  options.files->Remove(write.temporary).IgnoreError();
  return status;
}

// After a failed sync nobody knows what the file holds, and a second sync may well say OK: only a
// new file can be trusted.
absl::Status DiskTier::Impl::SyncTemporary(Write& write) {
  absl::Status status = write.file->Sync();
  for (int attempt = 0; attempt < 2 && !status.ok(); ++attempt) {
    write.file.reset();
    options.files->Remove(write.temporary).IgnoreError();
    if (attempt > 0) return status;
    FERMATA_RETURN_IF_ERROR(WriteTemporary(write));
    status = write.file->Sync();
  }
  write.file.reset();
  return status;
}

absl::Status DiskTier::Impl::NameFile(Write& write) {
  absl::Status status = options.files->Rename(write.temporary, paths.File(write.Name()));
  if (!status.ok()) options.files->Remove(write.temporary).IgnoreError();
  return status;
}

void DiskTier::Impl::SyncNames(std::span<Write* const> writes) {
  std::map<uint64_t, absl::Status> synced;
  for (const Write* write : writes) {
    if (!write->status.ok() || synced.contains(write->Shard())) continue;
    synced[write->Shard()] = options.files->SyncDirectory(paths.ShardDirectory(write->Shard()));
  }
  for (Write* write : writes) {
    if (!write->status.ok()) continue;
    write->status = synced[write->Shard()];
    if (!write->status.ok()) GiveUp(write->Name());
  }
}

// Removes a file that nothing knows of, now or later.
void DiskTier::Impl::GiveUp(const SnapshotFile& file) {
  const std::lock_guard guard(changes_mutex);
  Apply({{.file = file, .kind = FileChange::Kind::kRemove}}).IgnoreError();
}

void DiskTier::Impl::Publish(std::span<Write* const> writes) {
  std::vector<SnapshotFile> orphans;
  std::vector<SnapshotIndex::Row> rows;
  {
    const std::lock_guard guard(mutex);
    for (Write* write : writes) {
      const SnapshotName& name = write->snapshot.name;
      const bool embeds = !write->state.elsewhere;
      write->done = true;
      being_written.erase(name.key);
      if (embeds) states_being_written.erase(name.state);
      unwritten_bytes -= write->bytes;
      if (!write->status.ok()) {
        catalog.EndFile(name.key, write->head.size(), embeds);
        const auto orphan = embeds ? std::nullopt : catalog.RemoveUser(name.state);
        if (orphan.has_value()) orphans.push_back(*orphan);
        continue;
      }
      const DiskCatalog::Snapshot snapshot{.name = name,
                                           .session = absl::HashOf(write->snapshot.record->id),
                                           .head_bytes = static_cast<uint32_t>(write->head.size()),
                                           .embeds = embeds};
      if (embeds) {
        catalog.AddEmbedding(snapshot, write->state.checksum);
      } else {
        catalog.AddReferring(snapshot);
      }
      rows.push_back({.key = name.key, .head = write->head});
    }
  }
  // The next start reads what the index does not have from the files.
  if (index != nullptr) index->Update({}, rows).IgnoreError();
  written.notify_all();
  for (const SnapshotFile& orphan : orphans) GiveUp(orphan);
}

}  // namespace fermata
