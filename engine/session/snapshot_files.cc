#include "engine/session/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

constexpr std::string_view kSnapshotEnding = ".snap";
constexpr std::string_view kStateEnding = ".state";
constexpr size_t kKeyDigits = 16;
// Nearly all heads are shorter; the state that follows would be read in vain.
constexpr size_t kFirstRead = 4096;

std::string Hex(uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof(text), "%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The file of that name within the directory, if it is the name of one.
std::optional<SnapshotFile> ParseName(const std::string& name) {
  const size_t slash = name.find('/');
  const size_t dot = name.find('.', slash);
  if (dot == std::string::npos || dot - slash - 1 != kKeyDigits) return std::nullopt;
  const auto key = ParseHex(std::string_view(name).substr(slash + 1, kKeyDigits));
  if (!key.has_value() || *key == 0) return std::nullopt;
  for (const FileRole role : {FileRole::kSnapshot, FileRole::kState}) {
    const SnapshotFile file{.key = *key, .role = role};
    if (SnapshotPaths::Name(file) == name) return file;
  }
  return std::nullopt;
}

bool BelongsAtTheTop(const FileSystem::Entry& entry) {
  if (entry.is_directory) return entry.name == "lost+found";
  return entry.name == "LOCK" || entry.name == "index.db" || entry.name == "index.db-wal" ||
         entry.name == "index.db-shm" || entry.name == "index.db-journal";
}

std::optional<uint64_t> ParseShard(const FileSystem::Entry& entry) {
  const auto shard = entry.is_directory ? ParseHex(entry.name) : std::nullopt;
  return shard.has_value() && Hex(*shard, 1) == entry.name ? shard : std::nullopt;
}

absl::Status ListShard(const FileSystem& files, const SnapshotPaths& paths, uint64_t shard,
                       DirectoryContents& contents) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<FileSystem::Entry> entries,
                           files.List(paths.ShardDirectory(shard)));
  if (entries.empty()) contents.empty_shards.push_back(shard);
  for (const FileSystem::Entry& entry : entries) {
    std::string name = Hex(shard, 1) + "/" + entry.name;
    const auto file = entry.is_directory ? std::nullopt : ParseName(name);
    if (file.has_value()) {
      contents.files.push_back(*file);
    } else {
      contents.strangers.push_back(std::move(name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string SnapshotPaths::ShardDirectory(uint64_t shard) const {
  return directory_ + "/" + Hex(shard, 1);
}

std::string SnapshotPaths::Name(const SnapshotFile& file) {
  return Hex(Shard(file.key), 1) + "/" + Hex(file.key, kKeyDigits) +
         std::string(file.role == FileRole::kSnapshot ? kSnapshotEnding : kStateEnding);
}

std::string SnapshotPaths::Temporary(SnapshotKey key, uint64_t attempt) const {
  return ShardDirectory(Shard(key)) + "/" + Hex(key, kKeyDigits) + "." + std::to_string(attempt) +
         ".tmp";
}

absl::Status CheckDirectory(const FileSystem& files, const SnapshotPaths& paths) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<FileSystem::Entry> entries,
                           files.List(paths.directory()));
  std::string foreign;
  for (const FileSystem::Entry& entry : entries) {
    if (entry.name == "LOCK") return absl::OkStatus();
    if (!BelongsAtTheTop(entry) && !ParseShard(entry).has_value()) foreign = entry.name;
  }
  if (foreign.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   paths.directory() + ": not a directory of sessions, as it has " + foreign,
                   {.reason = "DIRECTORY_FOREIGN",
                    .metadata = {{"path", paths.directory()}},
                    .retry_after = {}});
}

absl::StatusOr<DirectoryContents> ListSnapshotFiles(const FileSystem& files,
                                                    const SnapshotPaths& paths) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<FileSystem::Entry> entries,
                           files.List(paths.directory()));
  DirectoryContents contents;
  for (const FileSystem::Entry& entry : entries) {
    if (BelongsAtTheTop(entry)) continue;
    if (const auto shard = ParseShard(entry); shard.has_value()) {
      FERMATA_RETURN_IF_ERROR(ListShard(files, paths, *shard, contents));
    } else {
      contents.strangers.push_back(entry.name);
    }
  }
  std::sort(contents.files.begin(), contents.files.end(),
            [](const SnapshotFile& a, const SnapshotFile& b) {
              return std::pair(a.key, a.role) < std::pair(b.key, b.role);
            });
  // A key has one file: a second one is none that we wrote.
  const auto same_key = [&](const SnapshotFile& a, const SnapshotFile& b) {
    if (a.key != b.key) return false;
    contents.strangers.push_back(SnapshotPaths::Name(b));
    return true;
  };
  contents.files.erase(std::unique(contents.files.begin(), contents.files.end(), same_key),
                       contents.files.end());
  return contents;
}

absl::StatusOr<StoredHead> ReadSnapshotHead(const FileSystem& files, const SnapshotPaths& paths,
                                            const SnapshotFile& file) {
  const std::string path = paths.File(file);
  std::string bytes;
  absl::StatusOr<SnapshotHead> head = absl::UnknownError("");
  for (const size_t most : {kFirstRead, kMaxSnapshotHeadBytes}) {
    bytes.resize(most);
    FERMATA_ASSIGN_OR_RETURN(
        const size_t count,
        files.Read(path, 0, std::as_writable_bytes(std::span(bytes.data(), bytes.size()))));
    bytes.resize(count);
    head = DecodeSnapshotHead(bytes);
    if (head.ok() || count < most) break;
  }
  if (!head.ok()) return AboutFile(path, head.status());
  if (head->name.key != file.key) {
    return AboutFile(path, DamagedSnapshot(0, "the file has another snapshot's name"));
  }
  bytes.resize(head->size);
  return StoredHead{.head = *std::move(head), .bytes = std::move(bytes)};
}

absl::Status ReadSnapshotState(const FileSystem& files, const std::string& path, size_t offset,
                               const StateInfo& info, std::span<std::byte> state) {
  FERMATA_ASSIGN_OR_RETURN(const size_t count,
                           files.Read(path, static_cast<int64_t>(offset), state));
  if (count < state.size()) {
    return AboutFile(path, DamagedSnapshot(offset + count, "the state is cut off"));
  }
  if (StateChecksum(state) != info.checksum) return AboutFile(path, DamagedState(offset));
  return absl::OkStatus();
}

absl::Status CheckFileSize(const FileSystem& files, const std::string& path,
                           const SnapshotHead& head) {
  FERMATA_ASSIGN_OR_RETURN(const int64_t size, files.Size(path));
  const size_t want = head.size + (head.state.elsewhere ? 0 : head.state.bytes);
  if (static_cast<size_t>(size) == want) return absl::OkStatus();
  return AboutFile(path,
                   DamagedSnapshot(std::min<size_t>(size, want), static_cast<size_t>(size) < want
                                                                     ? "the state is cut off"
                                                                     : "bytes after the snapshot"));
}

absl::StatusOr<std::string> MoveAside(FileSystem& files, const SnapshotPaths& paths,
                                      const std::string& name) {
  // There for good before anything is moved there.
  FERMATA_RETURN_IF_ERROR(files.MakeDirectory(paths.LostAndFound()));
  FERMATA_RETURN_IF_ERROR(files.SyncDirectory(paths.directory()));
  const std::string wanted = paths.LostAndFound() + "/" + name.substr(name.find('/') + 1);
  std::string to = wanted;
  absl::Status taken = files.Size(to).status();
  for (int i = 1; taken.ok(); ++i) {
    to = wanted + "." + std::to_string(i);
    taken = files.Size(to).status();
  }
  if (!absl::IsNotFound(taken)) return taken;
  FERMATA_RETURN_IF_ERROR(files.Rename(paths.directory() + "/" + name, to));
  return to;
}

void RemoveSnapshotIndex(FileSystem& files, const SnapshotPaths& paths) {
  for (const char* ending : {"", "-wal", "-shm", "-journal"}) {
    files.Remove(paths.Index() + ending).IgnoreError();
  }
}

absl::Status AboutFile(const std::string& path, const absl::Status& status) {
  ErrorDetails details = DetailsOf(status);
  details.metadata.emplace("path", path);
  return MakeError(status.code(), path + ": " + std::string(status.message()), details);
}

}  // namespace fermata
