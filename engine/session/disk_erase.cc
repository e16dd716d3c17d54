// How snapshots go: Erase and SetAside.

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/session/disk_tier_impl.h"

namespace fermata {

absl::Status DiskTier::Erase(std::span<const SnapshotKey> keys) {
  return impl_->RemoveAll(keys, FileChange::Kind::kRemove);
}

absl::Status DiskTier::SetAside(SnapshotKey key) {
  return impl_->RemoveAll({&key, 1}, FileChange::Kind::kSetAside);
}

// Each step is durable before the next begins: a session's newest snapshot goes after its older
// ones, which would take its place; and a state when nothing is left that refers to it.
absl::Status DiskTier::Impl::RemoveAll(std::span<const SnapshotKey> keys, FileChange::Kind kind) {
  const std::lock_guard changing(changes_mutex);
  const auto [first, last] = NewestLast(keys);
  std::vector<FileChange> orphans;
  absl::Status status = Apply(std::exchange(pending, {}));
  if (status.ok()) status = Apply(Release(first, kind, orphans));
  if (status.ok()) status = Apply(Release(last, kind, orphans));
  if (status.ok()) return Apply(std::move(orphans));
  pending.insert(pending.end(), orphans.begin(), orphans.end());
  return status;
}

// Those of `keys` that are there, in two parts: sessions of which there are several have their newest
// in the second.
std::pair<std::vector<SnapshotKey>, std::vector<SnapshotKey>> DiskTier::Impl::NewestLast(
    std::span<const SnapshotKey> keys) const {
  const std::lock_guard guard(mutex);
  absl::flat_hash_map<uint64_t, SnapshotKey> oldest, newest;  // By session.
  for (const SnapshotKey key : keys) {
    const DiskCatalog::Snapshot* snapshot = catalog.Find(key);
    if (snapshot == nullptr) continue;
    SnapshotKey& low = oldest.try_emplace(snapshot->session, key).first->second;
    SnapshotKey& high = newest.try_emplace(snapshot->session, key).first->second;
    low = std::min(low, key);
    high = std::max(high, key);
  }
  std::pair<std::vector<SnapshotKey>, std::vector<SnapshotKey>> parts;
  for (const SnapshotKey key : keys) {
    const DiskCatalog::Snapshot* snapshot = catalog.Find(key);
    if (snapshot == nullptr) continue;
    const bool second = key == newest[snapshot->session] && key != oldest[snapshot->session];
    (second ? parts.second : parts.first).push_back(key);
  }
  return parts;
}

// Takes snapshots out of the catalog. What is to be done with their files; and with those of states
// that nobody needs then.
std::vector<FileChange> DiskTier::Impl::Release(std::span<const SnapshotKey> keys,
                                                FileChange::Kind kind,
                                                std::vector<FileChange>& orphans) {
  const std::lock_guard guard(mutex);
  std::vector<FileChange> changes;
  for (const SnapshotKey key : keys) {
    const DiskCatalog::Snapshot* snapshot = catalog.Find(key);
    if (snapshot == nullptr) continue;
    const SnapshotKey state = snapshot->name.state;
    const DiskCatalog::Removed removed = catalog.Remove(key);
    changes.push_back({.file = {.key = key, .role = FileRole::kSnapshot},
                       .kind = removed.keep_state ? FileChange::Kind::kKeepState : kind,
                       .state = state});
    if (removed.orphan.has_value()) {
      orphans.push_back({.file = *removed.orphan, .kind = kind, .state = state});
    }
  }
  return changes;
}

// Makes the changes and makes them durable. Those that fail are kept for the next time.
absl::Status DiskTier::Impl::Apply(std::vector<FileChange> changes) {
  absl::Status status;
  std::vector<SnapshotKey> gone;
  std::set<uint64_t> touched;
  for (FileChange& change : changes) {
    const absl::Status changed = ApplyOne(change);
    status.Update(changed);
    if (!changed.ok()) {
      pending.push_back(change);
      continue;
    }
    touched.insert(SnapshotPaths::Shard(change.file.key));
    if (change.kind != FileChange::Kind::kKeepState) gone.push_back(change.file.key);
  }
  unsynced.insert(touched.begin(), touched.end());
  status.Update(SyncShards());
  // The next start drops from the index what has no file.
  if (index != nullptr) index->Update(gone, {}).IgnoreError();
  if (status.ok()) RemoveEmptyShards(touched);
  return status;
}

absl::Status DiskTier::Impl::ApplyOne(const FileChange& change) {
  // The file has the other name when it has changed its role since.
  for (const FileRole role :
       {change.file.role,
        change.file.role == FileRole::kSnapshot ? FileRole::kState : FileRole::kSnapshot}) {
    const SnapshotFile file{.key = change.file.key, .role = role};
    absl::Status status;
    switch (change.kind) {
      case FileChange::Kind::kRemove:
        status = options.files->Remove(paths.File(file));
        break;
      case FileChange::Kind::kSetAside:
        status = MoveAside(*options.files, paths, SnapshotPaths::Name(file)).status();
        break;
      case FileChange::Kind::kKeepState:
        return KeepState(change);
    }
    if (!absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

absl::Status DiskTier::Impl::KeepState(const FileChange& change) {
  const SnapshotKey key = change.file.key;
  absl::Status status = options.files->Rename(paths.File({.key = key, .role = FileRole::kSnapshot}),
                                              paths.File({.key = key, .role = FileRole::kState}));
  if (absl::IsNotFound(status)) return absl::OkStatus();  // Nobody has needed it since.
  const std::lock_guard guard(mutex);
  if (status.ok()) catalog.BecomeStateFile(key, change.state);
  return status;
}

absl::Status DiskTier::Impl::SyncShards() {
  absl::Status status;
  for (const uint64_t shard : std::set<uint64_t>(unsynced)) {
    const absl::Status synced = options.files->SyncDirectory(paths.ShardDirectory(shard));
    status.Update(synced);
    if (synced.ok()) unsynced.erase(shard);
  }
  return status;
}

void DiskTier::Impl::RemoveEmptyShards(const std::set<uint64_t>& touched) {
  const std::lock_guard guard(mutex);
  for (const uint64_t shard : touched) {
    if (!catalog.ShardIsEmpty(shard)) continue;
    shards.erase(shard);
    options.files->RemoveDirectory(paths.ShardDirectory(shard)).IgnoreError();
  }
}

}  // namespace fermata
