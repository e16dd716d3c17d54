#ifndef FERMATA_ENGINE_SESSION_FSCK_H_
#define FERMATA_ENGINE_SESSION_FSCK_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_system.h"
#include "engine/session/snapshot.h"

namespace fermata {

struct FsckOptions {
  std::string directory;
  bool set_aside = false;  // Move what is not as it should be to lost+found; else only tell.
  FileSystem* files = &PosixFileSystem();
};

struct FsckRow {
  std::string file;        // Its name within the directory,
  std::string moved_to;    // and where it lies now, if it was moved.
  std::string_view role;   // "snapshot", "state", "temporary" or "unknown".
  std::string session_id;  // Empty where it can not be known, as what follows is 0.
  int64_t position = 0;
  int64_t bytes = 0;     // Of the file.
  absl::Status verdict;  // OK, or what is wrong with it.
};

struct FsckReport {
  std::vector<FsckRow> rows;  // One a file: first those with a key, in the order of their keys.
  int64_t snapshots = 0;      // That are whole,
  int64_t sessions = 0;       // and of how many sessions,
  std::map<std::string, int64_t> models;  // and of which models, by fingerprint.
  int64_t bytes = 0;                      // Of all files.
  int64_t bad = 0;                        // Rows whose verdict is not OK.
  absl::Status index;                     // Of making the index anew.
};

// Reads every byte of a directory of snapshots and compares it with its checksums, and makes the
// index anew from what is whole. Takes the directory's lock: FAILED_PRECONDITION with reason
// DIRECTORY_LOCKED while a server has it open, DIRECTORY_FOREIGN as DiskTier::Open; NOT_FOUND; else what
// FileSystem gives for a directory that can not be listed: a file that can not be read is a row.
absl::StatusOr<FsckReport> Fsck(const FsckOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_FSCK_H_
