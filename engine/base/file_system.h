#ifndef FERMATA_ENGINE_BASE_FILE_SYSTEM_H_
#define FERMATA_ENGINE_BASE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fermata {

// What durable files need of a file system, as an interface: the tests put one in its place that
// forgets what was not synced and fails at a chosen call.
//
// Nothing survives a loss of power but what was synced: a file's bytes after OutputFile::Sync, its
// name (as of Create, Rename and Remove) after SyncDirectory of the directory that holds it.
//
// Errors name the path: NOT_FOUND; ALREADY_EXISTS; RESOURCE_EXHAUSTED with reason DISK_FULL for a
// full disk or quota; PERMISSION_DENIED; UNAVAILABLE with reason DISK_FAILED for all else. Blocks.
// Thread-safe; an OutputFile is used by one thread at a time.
class OutputFile {
 public:
  // Closes the file; what was not synced may be lost.
  virtual ~OutputFile() = default;
  virtual absl::Status Append(std::span<const std::byte> bytes) = 0;
  // Begins to write what was appended to the disk, so that a later Sync has less to wait for. A hint.
  virtual void StartSync() = 0;
  // fdatasync. After an error nothing is known of the file's bytes, also when a later call says OK:
  // the file must be written anew.
  virtual absl::Status Sync() = 0;
};

// Holds a directory's lock until it is destroyed.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

class FileSystem {
 public:
  struct Entry {
    std::string name;  // Within its directory.
    bool is_directory = false;
  };
  virtual ~FileSystem() = default;

  // A new file, which must not exist yet.
  virtual absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<int64_t> Size(const std::string& path) const = 0;
  // Fills `bytes` from `offset` on, as far as the file goes; how far that was.
  virtual absl::StatusOr<size_t> Read(const std::string& path, int64_t offset,
                                      std::span<std::byte> bytes) const = 0;
  // Puts `from` in the place of `to`, at once for all who look.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Nothing happens when it is there already.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Of an empty directory.
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // In no order.
  virtual absl::StatusOr<std::vector<Entry>> List(const std::string& directory) const = 0;
  // That an unprivileged user may still write.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& directory) const = 0;
  // Takes the lock of a directory for this process. FAILED_PRECONDITION with reason
  // DIRECTORY_LOCKED while another process, or this one, holds it.
  virtual absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) = 0;
};

// The system's own. Lives for ever.
FileSystem& PosixFileSystem();

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_FILE_SYSTEM_H_
