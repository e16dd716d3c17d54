#ifndef FERMATA_TESTS_ENGINE_SESSION_DISK_TESTING_H_
#define FERMATA_TESTS_ENGINE_SESSION_DISK_TESTING_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session/disk_tier.h"
#include "tests/engine/session/records.h"

namespace fermata {

inline constexpr size_t kDiskStateBytes = 100;
inline constexpr char kDiskModel[] = "f00d";

// A fresh directory, in memory where the system has one there, that is removed with the object.
class DiskDir {
 public:
  DiskDir();
  ~DiskDir();
  DiskDir(const DiskDir&) = delete;
  DiskDir& operator=(const DiskDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  void Write(std::string_view name, std::string_view bytes) const;
  std::string Read(std::string_view name) const;
  bool Has(std::string_view name) const;
  // All files below it but the lock's and the index's, sorted.
  std::vector<std::string> Names() const;
  // Makes it what `other` is.
  void CopyFrom(const DiskDir& other) const;

 private:
  std::string path_;
};

// What a tier was given.
struct DiskSnapshot {
  SnapshotName name;
  SessionRecord record;
  std::vector<std::byte> state;
};
// A snapshot of session `id` with something in every field; its state is a function of name.state.
DiskSnapshot SomeSnapshot(const SnapshotName& name, std::string_view id);

DiskTier::Options DiskOptions(const DiskDir& directory, FileSystem* files = &PosixFileSystem());

// Opens what must open.
DiskTier::Opened MustOpen(const DiskTier::Options& options);

// Puts all of them at once.
std::vector<absl::Status> PutAll(Tier& tier, const std::vector<DiskSnapshot>& snapshots);

// That `tier` gives back exactly `snapshot`.
void ExpectKept(const Tier& tier, const DiskSnapshot& snapshot);
// That it has none of that key.
void ExpectNone(const Tier& tier, SnapshotKey key);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SESSION_DISK_TESTING_H_
