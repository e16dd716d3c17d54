#ifndef FERMATA_ENGINE_SESSION_DISK_TIER_IMPL_H_
#define FERMATA_ENGINE_SESSION_DISK_TIER_IMPL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "engine/session/disk_catalog.h"
#include "engine/session/disk_tier.h"
#include "engine/session/snapshot_files.h"
#include "engine/session/snapshot_index.h"

namespace fermata {

// A file that is to go, or to become that of a state alone.
struct FileChange {
  enum class Kind : uint8_t { kRemove, kSetAside, kKeepState };
  SnapshotFile file;
  Kind kind = Kind::kRemove;
  SnapshotKey state = 0;
};

// Files are read and written without `mutex`, but for what takes no time.
struct DiskTier::Impl {
  explicit Impl(const Options& tier_options)
      : options(tier_options), paths(tier_options.directory), catalog(tier_options.state_bytes) {}

  struct Write;  // One snapshot on its way to its file.

  // disk_put.cc, in the order in which Put calls them.
  absl::Status CheckNew(const NewSnapshot& snapshot) const;
  std::vector<Write*> Plan(std::span<Write> writes);
  bool PlanOne(Write& write);
  absl::Status CheckRoom(int64_t bytes) const;
  void WriteFiles(std::span<Write* const> writes);
  void MakeShards(std::span<Write* const> writes);
  absl::Status WriteTemporary(Write& write);
  void SyncTemporaries(std::span<Write* const> writes);
  absl::Status SyncTemporary(Write& write);
  absl::Status NameFile(Write& write);
  void SyncNames(std::span<Write* const> writes);
  void GiveUp(const SnapshotFile& file);
  void Publish(std::span<Write* const> writes);

  // disk_erase.cc. They need changes_mutex; all but the first.
  absl::Status RemoveAll(std::span<const SnapshotKey> keys, FileChange::Kind kind);
  std::pair<std::vector<SnapshotKey>, std::vector<SnapshotKey>> NewestLast(
      std::span<const SnapshotKey> keys) const;
  std::vector<FileChange> Release(std::span<const SnapshotKey> keys, FileChange::Kind kind,
                                  std::vector<FileChange>& orphans);
  absl::Status Apply(std::vector<FileChange> changes);
  absl::Status ApplyOne(const FileChange& change);
  absl::Status KeepState(const FileChange& change);
  absl::Status SyncShards();
  void RemoveEmptyShards(const std::set<uint64_t>& touched);

  Options options;
  SnapshotPaths paths;
  std::unique_ptr<DirectoryLock> lock;
  std::unique_ptr<SnapshotIndex> index;  // Null where it can not be had.
  std::atomic<uint64_t> attempts = 0;    // Of writing a file.

  mutable std::mutex mutex;  // Guards what follows, up to changes_mutex.
  DiskCatalog catalog;
  absl::flat_hash_set<SnapshotKey> being_written;         // Snapshots,
  absl::flat_hash_set<SnapshotKey> states_being_written;  // and states that they will embed.
  int64_t unwritten_bytes = 0;                            // That they may still take.
  absl::flat_hash_set<uint64_t> shards;                   // That are there for good.
  std::condition_variable written;

  std::mutex changes_mutex;         // Guards what follows; taken before `mutex`.
  std::vector<FileChange> pending;  // That failed, and will be tried again.
  std::set<uint64_t> unsynced;      // Shards with changes that may not be durable.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_DISK_TIER_IMPL_H_
