#ifndef FERMATA_ENGINE_SESSION_SNAPSHOT_FILES_H_
#define FERMATA_ENGINE_SESSION_SNAPSHOT_FILES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_system.h"
#include "engine/session/snapshot.h"

namespace fermata {

// A file of a directory of snapshots is a snapshot, or keeps the state of one that was erased for
// the others that have it.
enum class FileRole : uint8_t { kSnapshot, kState };

struct SnapshotFile {
  SnapshotKey key = 0;
  FileRole role = FileRole::kSnapshot;

  bool operator==(const SnapshotFile&) const = default;
};

// The names of FORMAT.md.
class SnapshotPaths {
 public:
  explicit SnapshotPaths(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  std::string Index() const { return directory_ + "/index.db"; }
  std::string LostAndFound() const { return directory_ + "/lost+found"; }
  // Where files are that are written at about the same time: 4,096 keys in one.
  static uint64_t Shard(SnapshotKey key) { return key >> 12; }
  std::string ShardDirectory(uint64_t shard) const;
  // Of a file, within the directory.
  static std::string Name(const SnapshotFile& file);
  std::string File(const SnapshotFile& file) const { return directory_ + "/" + Name(file); }
  // Of a snapshot that is being written, for the `attempt`th time.
  std::string Temporary(SnapshotKey key, uint64_t attempt) const;

 private:
  std::string directory_;
};

// OK for a directory that was used for snapshots before, or has nothing else in it. NOT_FOUND;
// FAILED_PRECONDITION with reason DIRECTORY_FOREIGN, as what is there would be moved aside.
absl::Status CheckDirectory(const FileSystem& files, const SnapshotPaths& paths);

struct DirectoryContents {
  std::vector<SnapshotFile> files;     // In the order of their keys, one each.
  std::vector<uint64_t> empty_shards;  // With nothing in them.
  std::vector<std::string> strangers;  // What does not belong there; names within the directory.
};
absl::StatusOr<DirectoryContents> ListSnapshotFiles(const FileSystem& files,
                                                    const SnapshotPaths& paths);

// A head, and its bytes.
struct StoredHead {
  SnapshotHead head;
  std::string bytes;
};
// Reads the head of a file. Errors name the file: DATA_LOSS as DecodeSnapshotHead gives it, also for
// a key that is not the file's; what `files` gives.
absl::StatusOr<StoredHead> ReadSnapshotHead(const FileSystem& files, const SnapshotPaths& paths,
                                            const SnapshotFile& file);

// Reads the state at `offset` of `path`, which must have what `info` says. Errors as above.
absl::Status ReadSnapshotState(const FileSystem& files, const std::string& path, size_t offset,
                               const StateInfo& info, std::span<std::byte> state);

// DATA_LOSS unless the file has the length that its head says.
absl::Status CheckFileSize(const FileSystem& files, const std::string& path,
                           const SnapshotHead& head);

// Moves `name` (within the directory) to lost+found, under a name that is free there; its new path.
absl::StatusOr<std::string> MoveAside(FileSystem& files, const SnapshotPaths& paths,
                                      const std::string& name);

// Removes the index's files, which are made anew then.
void RemoveSnapshotIndex(FileSystem& files, const SnapshotPaths& paths);

// `status`, naming the file that it is about.
absl::Status AboutFile(const std::string& path, const absl::Status& status);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SNAPSHOT_FILES_H_
