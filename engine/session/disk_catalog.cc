#include "engine/session/disk_catalog.h"

namespace fermata {
namespace {

constexpr int64_t kBlockBytes = 4096;  // Of the file systems in common use.

}  // namespace

int64_t DiskCatalog::FileBytes(size_t head_bytes, bool embeds) const {
  const auto bytes = static_cast<int64_t>(head_bytes + (embeds ? state_bytes_ : 0));
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

void DiskCatalog::BeginFile(SnapshotKey key, size_t head_bytes, bool embeds) {
  bytes_ += FileBytes(head_bytes, embeds);
  ++shard_files_[SnapshotPaths::Shard(key)];
}

void DiskCatalog::EndFile(SnapshotKey key, size_t head_bytes, bool embeds) {
  bytes_ -= FileBytes(head_bytes, embeds);
  const auto shard = shard_files_.find(SnapshotPaths::Shard(key));
  if (--shard->second == 0) shard_files_.erase(shard);
}

const DiskCatalog::Snapshot* DiskCatalog::Find(SnapshotKey key) const {
  const auto found = snapshots_.find(key);
  return found == snapshots_.end() ? nullptr : &found->second;
}

const DiskCatalog::StateFile* DiskCatalog::FindState(SnapshotKey state) const {
  const auto found = states_.find(state);
  return found == states_.end() ? nullptr : &found->second;
}

void DiskCatalog::AddEmbedding(const Snapshot& snapshot, uint64_t checksum) {
  const auto [state, added] = states_.try_emplace(snapshot.name.state);
  if (added) {
    state->second = {.file = {.key = snapshot.name.key, .role = FileRole::kSnapshot},
                     .head_bytes = snapshot.head_bytes,
                     .checksum = checksum};
  }
  ++state->second.users;
  snapshots_[snapshot.name.key] = snapshot;
}

void DiskCatalog::AddReferring(const Snapshot& snapshot) {
  snapshots_[snapshot.name.key] = snapshot;
}

void DiskCatalog::AddStateFile(SnapshotKey state, const StateFile& file) {
  states_.try_emplace(state, file);
}

std::optional<SnapshotFile> DiskCatalog::RemoveUser(SnapshotKey state) {
  const auto found = states_.find(state);
  if (--found->second.users > 0) return std::nullopt;
  const StateFile file = found->second;
  states_.erase(found);
  EndFile(file.file.key, file.head_bytes, /*embeds=*/true);
  return file.file;
}

DiskCatalog::Removed DiskCatalog::Remove(SnapshotKey key) {
  const auto found = snapshots_.find(key);
  const Snapshot snapshot = found->second;
  snapshots_.erase(found);
  const bool found_by_it = states_.at(snapshot.name.state).file.key == key;
  const std::optional<SnapshotFile> unused = RemoveUser(snapshot.name.state);
  if (found_by_it) return {.keep_state = !unused.has_value(), .orphan = {}};
  EndFile(key, snapshot.head_bytes, snapshot.embeds);
  return {.keep_state = false, .orphan = unused};
}

void DiskCatalog::BecomeStateFile(SnapshotKey key, SnapshotKey state) {
  const auto found = states_.find(state);
  if (found != states_.end() && found->second.file.key == key) {
    found->second.file.role = FileRole::kState;
  }
}

}  // namespace fermata
