// How a directory is taken up: DiskTier::Open.

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/disk_tier_impl.h"

namespace fermata {
namespace {

// Heads are short: the time goes into waiting for the disk, not into computing.
constexpr int kReaders = 8;
constexpr size_t kFilesPerReader = 64;  // That are worth a thread.

struct FoundFile {
  SnapshotFile file;
  absl::Status status;  // Whether the head is good.
  SnapshotHead head;
  std::string bytes;  // Of a head that the index does not have.

  bool indexed() const { return bytes.empty(); }
  bool is_snapshot() const { return file.role == FileRole::kSnapshot; }
};

absl::Status OtherModel(const std::string& path, const std::string& theirs,
                        const std::string& ours) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(path, ": a session of the model ", theirs, ", not of ", ours,
                                "; a directory has the sessions of one model"),
                   {.reason = "SNAPSHOT_MODEL",
                    .metadata = {{"path", path}, {"snapshot_model", theirs}, {"model", ours}},
                    .retry_after = {}});
}

}  // namespace

// The steps of Open, in the order in which they are called. Nothing in the directory is changed
// before Check has found that it is ours.
class DiskTier::Opener {
 public:
  explicit Opener(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

  absl::StatusOr<Opened> Run() {
    FERMATA_RETURN_IF_ERROR(LockDirectory());
    FERMATA_ASSIGN_OR_RETURN(DirectoryContents contents, ListSnapshotFiles(files(), impl_->paths));
    for (const SnapshotFile& file : contents.files) {
      opened_.last_key = std::max(opened_.last_key, file.key);
      found_.push_back({.file = file, .status = absl::UnknownError("")});
    }
    TakeHeadsFromIndex();
    ReadOtherHeads();
    for (FoundFile& file : found_) FERMATA_RETURN_IF_ERROR(Check(file));
    FillCatalog();
    Sweep(contents);
    BringIndexUp();
    opened_.tier.reset(new DiskTier(std::move(impl_)));
    return std::move(opened_);
  }

 private:
  FileSystem& files() { return *impl_->options.files; }

  absl::Status LockDirectory() {
    const absl::Status ours = CheckDirectory(files(), impl_->paths);
    if (absl::IsNotFound(ours)) {
      FERMATA_RETURN_IF_ERROR(MakeOurs());
    } else {
      FERMATA_RETURN_IF_ERROR(ours);
    }
    FERMATA_ASSIGN_OR_RETURN(impl_->lock, files().Lock(impl_->options.directory));
    return absl::OkStatus();
  }

  absl::Status MakeOurs() {
    const std::string& directory = impl_->options.directory;
    FERMATA_RETURN_IF_ERROR(files().MakeDirectory(directory));
    const size_t slash = directory.find_last_of('/', directory.find_last_not_of('/'));
    return files().SyncDirectory(
        slash == std::string::npos ? "." : directory.substr(0, std::max<size_t>(slash, 1)));
  }

  void Remark(std::string path, std::string what) {
    opened_.remarks.push_back({.path = std::move(path), .what = std::move(what)});
  }

  // What is wrong with it is not worth finding out: all that it says is in the files.
  void TakeHeadsFromIndex() {
    const std::string path = impl_->paths.Index();
    absl::Status status = LoadIndex();
    if (status.ok()) return;
    Remark(path, absl::StrCat("made anew from the files: ", status.message()));
    for (FoundFile& file : found_) file.status = absl::UnknownError("");
    RemoveIndex();
    status = LoadIndex();
    if (!status.ok()) DoWithoutIndex(status);
  }

  void RemoveIndex() {
    impl_->index.reset();
    RemoveSnapshotIndex(files(), impl_->paths);
  }

  void DoWithoutIndex(const absl::Status& why) {
    RemoveIndex();
    Remark(impl_->paths.Index(), absl::StrCat("done without: ", why.message()));
  }

  absl::Status LoadIndex() {
    FERMATA_ASSIGN_OR_RETURN(impl_->index, SnapshotIndex::Open(impl_->paths.Index()));
    stale_rows_.clear();
    auto file = found_.begin();
    return impl_->index->ForEach([&](const SnapshotIndex::Row& row) {
      while (file != found_.end() && file->file.key < row.key) ++file;
      absl::StatusOr<SnapshotHead> head = DecodeSnapshotHead(row.head);
      if (file == found_.end() || file->file.key != row.key) {
        stale_rows_.push_back(row.key);
      } else if (head.ok() && head->name.key == row.key) {
        file->head = *std::move(head);
        file->status = absl::OkStatus();
      }
    });
  }

  void ReadOtherHeads() {
    std::vector<FoundFile*> unknown;
    for (FoundFile& file : found_) {
      if (!file.status.ok()) unknown.push_back(&file);
    }
    std::atomic<size_t> next = 0;
    const auto read = [&] {
      for (size_t i = next++; i < unknown.size(); i = next++) ReadHead(*unknown[i]);
    };
    std::vector<std::jthread> readers;
    for (int i = 1; i < kReaders && unknown.size() >= i * kFilesPerReader; ++i) {
      readers.emplace_back(read);
    }
    read();
  }

  void ReadHead(FoundFile& file) {
    absl::StatusOr<StoredHead> stored = ReadSnapshotHead(files(), impl_->paths, file.file);
    file.status = stored.status();
    if (!stored.ok()) return;
    file.head = std::move(stored->head);
    file.bytes = std::move(stored->bytes);
    file.status = CheckFileSize(files(), impl_->paths.File(file.file), file.head);
  }

  // Fails when the directory is not for us to use; a file that is damaged is another matter.
  absl::Status Check(FoundFile& file) {
    if (absl::IsDataLoss(file.status)) return absl::OkStatus();
    FERMATA_RETURN_IF_ERROR(file.status);
    const Options& options = impl_->options;
    const std::string& model = file.head.record.model_fingerprint;
    if (model != options.model_fingerprint) {
      return OtherModel(impl_->paths.File(file.file), model, options.model_fingerprint);
    }
    if (file.head.state.bytes != options.state_bytes) {
      file.status = DamagedSnapshot(0, "a state of another size");
    } else if (!file.is_snapshot() && file.head.state.elsewhere) {
      file.status = DamagedSnapshot(0, "a state's file without the state");
    }
    return absl::OkStatus();
  }

  void FillCatalog() {
    DiskCatalog& catalog = impl_->catalog;
    absl::flat_hash_set<SnapshotKey> referred;
    for (const FoundFile& file : found_) {
      if (!file.status.ok() || !file.is_snapshot()) continue;
      if (file.head.state.elsewhere) {
        referred.insert(file.head.name.state);
      } else {
        Begin(file);
        catalog.AddEmbedding(AsSnapshot(file), file.head.state.checksum);
      }
    }
    for (const FoundFile& file : found_) {
      if (!file.status.ok() || file.is_snapshot()) continue;
      const SnapshotKey state = file.head.name.state;
      if (!referred.contains(state) || catalog.FindState(state) != nullptr) {
        unused_.push_back(file.file);
        continue;
      }
      Begin(file);
      catalog.AddStateFile(state, {.file = file.file,
                                   .head_bytes = static_cast<uint32_t>(file.head.size),
                                   .checksum = file.head.state.checksum});
    }
    for (FoundFile& file : found_) {
      if (!file.status.ok() || !file.is_snapshot()) continue;
      if (file.head.state.elsewhere) AddReferring(file);
      if (!file.status.ok()) continue;
      opened_.snapshots.push_back({.name = file.head.name, .record = std::move(file.head.record)});
    }
  }

  void AddReferring(FoundFile& file) {
    const SnapshotKey state = file.head.name.state;
    if (impl_->catalog.FindState(state) == nullptr) {
      file.status = DamagedSnapshot(file.head.size, "its state is not in the directory");
      return;
    }
    Begin(file);
    impl_->catalog.AddUser(state);
    impl_->catalog.AddReferring(AsSnapshot(file));
  }

  void Begin(const FoundFile& file) {
    impl_->catalog.BeginFile(file.file.key, file.head.size, !file.head.state.elsewhere);
    impl_->shards.insert(SnapshotPaths::Shard(file.file.key));
  }

  static DiskCatalog::Snapshot AsSnapshot(const FoundFile& file) {
    return {.name = file.head.name,
            .session = absl::HashOf(file.head.record.id),
            .head_bytes = static_cast<uint32_t>(file.head.size),
            .embeds = !file.head.state.elsewhere};
  }

  void Sweep(const DirectoryContents& contents) {
    for (const std::string& name : contents.strangers) {
      SetAside(name, name.ends_with(".tmp") ? "a write that did not end"
                                            : "not a file of this directory");
    }
    for (const FoundFile& file : found_) {
      if (file.status.ok()) continue;
      stale_rows_.push_back(file.file.key);
      SetAside(SnapshotPaths::Name(file.file), std::string(file.status.message()));
    }
    for (const SnapshotFile& file : unused_) {
      stale_rows_.push_back(file.key);
      files().Remove(impl_->paths.File(file)).IgnoreError();
    }
    for (const uint64_t shard : contents.empty_shards) {
      files().RemoveDirectory(impl_->paths.ShardDirectory(shard)).IgnoreError();
    }
  }

  void SetAside(const std::string& name, const std::string& what) {
    const absl::StatusOr<std::string> to = MoveAside(files(), impl_->paths, name);
    if (to.ok()) {
      Remark(*to, what);
    } else {
      Remark(impl_->paths.directory() + "/" + name,
             absl::StrCat(what, "; it could not be moved aside: ", to.status().message()));
    }
  }

  // Synced, because keys beyond the last may be given anew: a row of a file that is gone must not
  // come back for another file of that name.
  void BringIndexUp() {
    if (impl_->index == nullptr) return;
    std::vector<SnapshotIndex::Row> added;
    for (const FoundFile& file : found_) {
      if (file.status.ok() && !file.indexed()) {
        added.push_back({.key = file.file.key, .head = file.bytes});
      }
    }
    absl::Status status = impl_->index->Update(stale_rows_, added);
    if (status.ok()) status = impl_->index->Sync();
    if (!status.ok()) DoWithoutIndex(status);
  }

  std::unique_ptr<Impl> impl_;
  Opened opened_;
  std::vector<FoundFile> found_;  // In the order of their keys.
  std::vector<SnapshotFile> unused_;
  std::vector<SnapshotKey> stale_rows_;
};

absl::StatusOr<DiskTier::Opened> DiskTier::Open(const Options& options) {
  return Opener(options).Run();
}

}  // namespace fermata
