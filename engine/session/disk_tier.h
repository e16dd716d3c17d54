#ifndef FERMATA_ENGINE_SESSION_DISK_TIER_H_
#define FERMATA_ENGINE_SESSION_DISK_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_system.h"
#include "engine/session/tier.h"

namespace fermata {

// Snapshots in files, one each, safe against the end of the process and, as far as fsync goes, of
// the machine. FORMAT.md says what a directory holds and in which order it is written.
class DiskTier : public Tier {
 public:
  struct Options {
    std::string directory;  // Made when missing; its parent must exist.
    size_t state_bytes = 0;
    std::string model_fingerprint;
    int64_t quota_bytes = 0;       // Of all snapshots' files, in blocks of 4 KiB; 0: no quota.
    int64_t free_space_floor = 0;  // Put fails rather than leave less than this free.
    FileSystem* files = &PosixFileSystem();
  };

  // A snapshot found at the start.
  struct Found {
    SnapshotName name;
    SessionRecord record;
  };
  // What the start found that is not as it should be; each is told once, in the server's log.
  struct Remark {
    std::string path;  // Where it lies now.
    std::string what;
  };
  struct Opened {
    std::unique_ptr<DiskTier> tier;
    std::vector<Found> snapshots;  // All that are whole, in the order of their keys.
    std::vector<Remark> remarks;
    // The highest key that the directory has seen, also of what is no snapshot any more: new
    // snapshots must have higher ones.
    SnapshotKey last_key = 0;
  };
  // Takes the directory's lock, puts aside what does not belong there, and brings the index to what
  // the files say. FAILED_PRECONDITION with reason DIRECTORY_LOCKED; DIRECTORY_FOREIGN for one
  // that has never been used for snapshots and has other things in it; SNAPSHOT_MODEL where the
  // snapshots are those of another model, and SNAPSHOT_VERSION where a newer build wrote them. What
  // FileSystem gives.
  static absl::StatusOr<Opened> Open(const Options& options);

  ~DiskTier() override;

  std::string_view name() const override { return "disk"; }
  std::vector<absl::Status> Put(std::span<const NewSnapshot> snapshots) override;
  absl::StatusOr<SessionRecord> Record(SnapshotKey key) const override;
  absl::Status State(SnapshotKey key, std::span<std::byte> state) const override;
  bool HasState(SnapshotKey state) const override;
  absl::Status Erase(std::span<const SnapshotKey> keys) override;
  TierUsage usage() const override;

  // As Erase, for a damaged snapshot: its file is moved to lost+found, for whoever looks into it; one
  // whose state others have only when they are gone too.
  absl::Status SetAside(SnapshotKey key) override;

 private:
  struct Impl;
  class Opener;
  explicit DiskTier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_DISK_TIER_H_
