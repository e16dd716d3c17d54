#include "tests/engine/session/disk_testing.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "gmock/gmock.h"

namespace fermata {
namespace fs = std::filesystem;

DiskDir::DiskDir() {
  static std::atomic<int> count = 0;
  const std::string base = fs::is_directory("/dev/shm") ? "/dev/shm/" : testing::TempDir();
  path_ = base + "fermata_disk_" + std::to_string(getpid()) + "_" + std::to_string(++count);
  fs::remove_all(path_);
  fs::create_directory(path_);
}

DiskDir::~DiskDir() { fs::remove_all(path_); }

void DiskDir::Write(std::string_view name, std::string_view bytes) const {
  fs::create_directories(fs::path(File(name)).parent_path());
  std::ofstream(File(name), std::ios::binary) << bytes;
}

std::string DiskDir::Read(std::string_view name) const {
  std::stringstream bytes;
  bytes << std::ifstream(File(name), std::ios::binary).rdbuf();
  return bytes.str();
}

bool DiskDir::Has(std::string_view name) const { return fs::exists(File(name)); }

std::vector<std::string> DiskDir::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    const std::string name = entry.path().lexically_relative(path_);
    if (entry.is_directory() || name == "LOCK" || name.starts_with("index.db")) continue;
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void DiskDir::CopyFrom(const DiskDir& other) const {
  for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
  fs::copy(other.path_, path_, fs::copy_options::recursive);
}

DiskSnapshot SomeSnapshot(const SnapshotName& name, std::string_view id) {
  DiskSnapshot snapshot{.name = name, .record = FullRecord(id)};
  snapshot.record.model_fingerprint = kDiskModel;
  snapshot.record.revision = name.key;
  snapshot.record.checkpoints.clear();
  snapshot.state = SomeState(kDiskStateBytes, static_cast<uint8_t>(name.state * 37));
  return snapshot;
}

DiskTier::Options DiskOptions(const DiskDir& directory, FileSystem* files) {
  DiskTier::Options options;
  options.directory = directory.path();
  options.state_bytes = kDiskStateBytes;
  options.model_fingerprint = kDiskModel;
  options.files = files;
  return options;
}

DiskTier::Opened MustOpen(const DiskTier::Options& options) {
  absl::StatusOr<DiskTier::Opened> opened = DiskTier::Open(options);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

std::vector<absl::Status> PutAll(Tier& tier, const std::vector<DiskSnapshot>& snapshots) {
  std::vector<NewSnapshot> news;
  for (const DiskSnapshot& snapshot : snapshots) {
    news.push_back({.name = snapshot.name, .record = &snapshot.record, .state = snapshot.state});
  }
  return tier.Put(news);
}

void ExpectKept(const Tier& tier, const DiskSnapshot& snapshot) {
  const SnapshotKey key = snapshot.name.key;
  const auto record = tier.Record(key);
  ASSERT_TRUE(record.ok()) << key << " " << record.status();
  EXPECT_EQ(*record, snapshot.record) << key;
  std::vector<std::byte> state(snapshot.state.size());
  const absl::Status read = tier.State(key, state);
  EXPECT_TRUE(read.ok()) << key << " " << read;
  EXPECT_TRUE(state == snapshot.state) << key;
  EXPECT_TRUE(tier.HasState(snapshot.name.state)) << key;
}

void ExpectNone(const Tier& tier, SnapshotKey key) {
  EXPECT_EQ(Reason(tier.Record(key).status()), "NOT_FOUND SNAPSHOT_NOT_FOUND") << key;
  std::vector<std::byte> state(kDiskStateBytes);
  EXPECT_EQ(Reason(tier.State(key, state)), "NOT_FOUND SNAPSHOT_NOT_FOUND") << key;
}

}  // namespace fermata
