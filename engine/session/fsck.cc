#include "engine/session/fsck.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/status.h"
#include "engine/session/snapshot_files.h"
#include "engine/session/snapshot_index.h"

namespace fermata {
namespace {

struct Checked {
  SnapshotFile file;
  StoredHead stored;
};

class Checker {
 public:
  explicit Checker(const FsckOptions& options)
      : options_(options), files_(*options.files), paths_(options.directory) {}

  absl::StatusOr<FsckReport> Run() {
    FERMATA_RETURN_IF_ERROR(CheckDirectory(files_, paths_));
    FERMATA_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                             files_.Lock(options_.directory));
    FERMATA_ASSIGN_OR_RETURN(const DirectoryContents contents, ListSnapshotFiles(files_, paths_));
    for (const SnapshotFile& file : contents.files) Read(file);
    for (size_t i = 0; i < checked_.size(); ++i) FindState(i);
    for (const std::string& name : contents.strangers) AddStranger(name);
    for (FsckRow& row : report_.rows) Settle(row);
    Count();
    report_.index = MakeIndex();
    return std::move(report_);
  }

 private:
  // Checks all of a file that lies in it.
  void Read(const SnapshotFile& file) {
    const std::string path = paths_.File(file);
    FsckRow row{.file = SnapshotPaths::Name(file),
                .role = file.role == FileRole::kSnapshot ? "snapshot" : "state",
                .bytes = files_.Size(path).value_or(0)};
    Checked checked{.file = file};
    absl::StatusOr<StoredHead> stored = ReadSnapshotHead(files_, paths_, file);
    row.verdict = stored.status();
    if (stored.ok()) {
      checked.stored = *std::move(stored);
      row.session_id = checked.stored.head.record.id;
      row.position = checked.stored.head.record.position;
      row.verdict = CheckFileSize(files_, path, checked.stored.head);
    }
    if (row.verdict.ok()) row.verdict = ReadState(file, checked.stored.head);
    report_.rows.push_back(std::move(row));
    checked_.push_back(std::move(checked));
  }

  absl::Status ReadState(const SnapshotFile& file, const SnapshotHead& head) {
    if (head.state.elsewhere) {
      if (file.role == FileRole::kSnapshot) return absl::OkStatus();
      return DamagedSnapshot(0, "a state's file without the state");
    }
    if (buffer_.size() != head.state.bytes) buffer_ = AlignedBuffer<std::byte>(head.state.bytes);
    FERMATA_RETURN_IF_ERROR(
        ReadSnapshotState(files_, paths_.File(file), head.size, head.state, buffer_.span()));
    states_[head.name.state] = head.state.checksum;
    return absl::OkStatus();
  }

  // For a file that refers to its state: whether that is there, and the one it was.
  void FindState(size_t i) {
    const SnapshotHead& head = checked_[i].stored.head;
    absl::Status& verdict = report_.rows[i].verdict;
    if (!verdict.ok() || !head.state.elsewhere) return;
    const auto state = states_.find(head.name.state);
    if (state == states_.end()) {
      verdict = DamagedSnapshot(head.size, "its state is not in the directory, or not whole");
    } else if (state->second != head.state.checksum) {
      verdict = DamagedSnapshot(head.size, "the state that it refers to is another one");
    }
  }

  void AddStranger(const std::string& name) {
    const bool temporary = name.ends_with(".tmp");
    report_.rows.push_back(
        {.file = name,
         .role = temporary ? "temporary" : "unknown",
         .bytes = files_.Size(paths_.directory() + "/" + name).value_or(0),
         .verdict = absl::FailedPreconditionError(temporary ? "a write that did not end"
                                                            : "not a file of this directory")});
  }

  void Settle(FsckRow& row) {
    if (row.verdict.ok() || !options_.set_aside) return;
    absl::StatusOr<std::string> to = MoveAside(files_, paths_, row.file);
    if (to.ok()) row.moved_to = *std::move(to);
  }

  void Count() {
    std::set<std::string_view> sessions;
    for (size_t i = 0; i < report_.rows.size(); ++i) {
      const FsckRow& row = report_.rows[i];
      report_.bytes += row.bytes;
      if (!row.verdict.ok()) {
        ++report_.bad;
      } else if (row.role == "snapshot") {
        ++report_.snapshots;
        ++report_.models[checked_[i].stored.head.record.model_fingerprint];
        sessions.insert(row.session_id);
      }
    }
    report_.sessions = static_cast<int64_t>(sessions.size());
  }

  absl::Status MakeIndex() {
    RemoveSnapshotIndex(files_, paths_);
    FERMATA_ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotIndex> index,
                             SnapshotIndex::Open(paths_.Index()));
    std::vector<SnapshotIndex::Row> rows;
    for (size_t i = 0; i < checked_.size(); ++i) {
      if (!report_.rows[i].verdict.ok()) continue;
      rows.push_back({.key = checked_[i].file.key, .head = checked_[i].stored.bytes});
    }
    FERMATA_RETURN_IF_ERROR(index->Update({}, rows));
    return index->Sync();
  }

  const FsckOptions& options_;
  FileSystem& files_;
  SnapshotPaths paths_;
  FsckReport report_;
  std::vector<Checked> checked_;  // Of the first rows.
  AlignedBuffer<std::byte> buffer_;
  absl::flat_hash_map<SnapshotKey, uint64_t> states_;  // Checksums of those that are whole.
};

}  // namespace

absl::StatusOr<FsckReport> Fsck(const FsckOptions& options) { return Checker(options).Run(); }

}  // namespace fermata
