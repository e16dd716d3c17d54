#ifndef FERMATA_ENGINE_SESSION_DISK_CATALOG_H_
#define FERMATA_ENGINE_SESSION_DISK_CATALOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "engine/session/snapshot.h"
#include "engine/session/snapshot_files.h"

namespace fermata {

// Which snapshots a directory has, which file has each state, how many need it, and what the files
// take: known by heart, without reading any. Needs the caller's lock.
class DiskCatalog {
 public:
  struct Snapshot {
    SnapshotName name;
    uint64_t session = 0;  // A hash of its id.
    uint32_t head_bytes = 0;
    bool embeds = false;  // Its file has the state; else it refers to it.
  };
  // The file that a state is read from.
  struct StateFile {
    SnapshotFile file;
    uint32_t head_bytes = 0;  // The state begins there.
    uint64_t checksum = 0;
    int64_t users = 0;  // Snapshots with this state, those that are being written too.
  };

  explicit DiskCatalog(size_t state_bytes) : state_bytes_(state_bytes) {}

  // Of a file on the disk: whole blocks.
  int64_t FileBytes(size_t head_bytes, bool embeds) const;
  // Files are counted from before they are written until they are given up.
  void BeginFile(SnapshotKey key, size_t head_bytes, bool embeds);
  void EndFile(SnapshotKey key, size_t head_bytes, bool embeds);
  bool ShardIsEmpty(uint64_t shard) const { return !shard_files_.contains(shard); }

  const Snapshot* Find(SnapshotKey key) const;
  const StateFile* FindState(SnapshotKey state) const;

  // A file that has been begun: of a snapshot that embeds a state, and by which the state is found
  // unless another one has it already; of one that refers to a state, and was made its user before;
  // of a state alone, without a user yet.
  void AddEmbedding(const Snapshot& snapshot, uint64_t checksum);
  void AddReferring(const Snapshot& snapshot);
  void AddStateFile(SnapshotKey state, const StateFile& file);
  // The state must be there.
  void AddUser(SnapshotKey state) { ++states_.at(state).users; }
  // Undoes AddUser. The file of a state that nobody needs any more, if so; it is given up.
  std::optional<SnapshotFile> RemoveUser(SnapshotKey state);

  // What becomes of the files when a snapshot goes.
  struct Removed {
    bool keep_state = false;  // Others need the state in its file; else that is given up.
    std::optional<SnapshotFile> orphan;  // As RemoveUser.
  };
  // The snapshot must be there.
  Removed Remove(SnapshotKey key);
  // The file of snapshot `key` keeps its state alone from now on.
  void BecomeStateFile(SnapshotKey key, SnapshotKey state);

  int64_t snapshots() const { return static_cast<int64_t>(snapshots_.size()); }
  int64_t states() const { return static_cast<int64_t>(states_.size()); }
  int64_t bytes() const { return bytes_; }

 private:
  size_t state_bytes_;
  absl::flat_hash_map<SnapshotKey, Snapshot> snapshots_;
  absl::flat_hash_map<SnapshotKey, StateFile> states_;
  absl::flat_hash_map<uint64_t, int64_t> shard_files_;
  int64_t bytes_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_DISK_CATALOG_H_
