// How snapshots are read. Open, Put and Erase have files of their own.

#include "engine/session/disk_tier.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/disk_tier_impl.h"

namespace fermata {
namespace {

absl::Status NotFound(SnapshotKey key) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat("no snapshot ", key, " on disk"),
                   {.reason = "SNAPSHOT_NOT_FOUND", .metadata = {}, .retry_after = {}});
}

// A file that the catalog knows and the directory does not.
absl::Status Vanished(const std::string& path, const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return AboutFile(path, DamagedSnapshot(0, "the file is gone"));
}

}  // namespace

DiskTier::DiskTier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DiskTier::~DiskTier() = default;

absl::StatusOr<SessionRecord> DiskTier::Record(SnapshotKey key) const {
  const auto is_here = [&] {
    const std::lock_guard guard(impl_->mutex);
    return impl_->catalog.Find(key) != nullptr;
  };
  if (!is_here()) return NotFound(key);
  if (impl_->index != nullptr) {
    const absl::StatusOr<std::string> bytes = impl_->index->Head(key);
    absl::StatusOr<SnapshotHead> head = bytes.ok() ? DecodeSnapshotHead(*bytes) : bytes.status();
    if (head.ok() && head->name.key == key) return std::move(head->record);
  }
  const SnapshotFile file{.key = key, .role = FileRole::kSnapshot};
  absl::StatusOr<StoredHead> stored = ReadSnapshotHead(*impl_->options.files, impl_->paths, file);
  if (stored.ok()) return std::move(stored->head.record);
  if (!is_here()) return NotFound(key);  // Erased meanwhile.
  return Vanished(impl_->paths.File(file), stored.status());
}

absl::Status DiskTier::State(SnapshotKey key, std::span<std::byte> state) const {
  if (state.size() != impl_->options.state_bytes) {
    return InvalidField("state", absl::StrCat("must have ", impl_->options.state_bytes, " bytes"));
  }
  DiskCatalog::Snapshot snapshot;
  DiskCatalog::StateFile state_file;
  {
    const std::lock_guard guard(impl_->mutex);
    const DiskCatalog::Snapshot* found = impl_->catalog.Find(key);
    if (found == nullptr) return NotFound(key);
    snapshot = *found;
    state_file = *impl_->catalog.FindState(found->name.state);
  }
  const FileSystem& files = *impl_->options.files;
  const SnapshotFile file{.key = key, .role = FileRole::kSnapshot};
  const std::string path = impl_->paths.File(file);
  const absl::StatusOr<StoredHead> stored = ReadSnapshotHead(files, impl_->paths, file);
  if (!stored.ok()) return Vanished(path, stored.status());
  const SnapshotHead& head = stored->head;
  if (head.name != snapshot.name || head.state.bytes != state.size()) {
    return AboutFile(path, DamagedSnapshot(0, "not the snapshot that was put there"));
  }
  if (!head.state.elsewhere) return ReadSnapshotState(files, path, head.size, head.state, state);
  // The file changes its name when its own snapshot is erased meanwhile.
  absl::Status status;
  std::string elsewhere;
  for (const FileRole role : {state_file.file.role, FileRole::kState}) {
    elsewhere = impl_->paths.File({.key = state_file.file.key, .role = role});
    status = ReadSnapshotState(files, elsewhere, state_file.head_bytes, head.state, state);
    if (!absl::IsNotFound(status)) return status;
  }
  return Vanished(elsewhere, status);
}

bool DiskTier::HasState(SnapshotKey state) const {
  const std::lock_guard guard(impl_->mutex);
  return impl_->catalog.FindState(state) != nullptr;
}

TierUsage DiskTier::usage() const {
  const std::lock_guard guard(impl_->mutex);
  return {.snapshots = impl_->catalog.snapshots(),
          .states = impl_->catalog.states(),
          .bytes = impl_->catalog.bytes(),
          .limit_bytes = impl_->options.quota_bytes};
}

}  // namespace fermata
