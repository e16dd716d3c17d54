#include "tests/engine/session/fault_file_system.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsOthers(const std::string& name) { return name == "LOCK" || name.starts_with("index.db"); }

}  // namespace

class FaultFileSystem::File : public OutputFile {
 public:
  File(FaultFileSystem& files, std::string path, std::shared_ptr<Node> node,
       std::unique_ptr<OutputFile> real)
      : files_(files), path_(std::move(path)), node_(std::move(node)), real_(std::move(real)) {}

  absl::Status Append(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(files_.mutex_);
    const Verdict verdict = files_.Next(path_);
    if (files_.dead_) return verdict.status;
    if (!verdict.act) bytes = bytes.first(bytes.size() / 2);
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    FERMATA_RETURN_IF_ERROR(real_->Append(bytes));
    return verdict.status;
  }
  void StartSync() override {}
  absl::Status Sync() override {
    const std::lock_guard lock(files_.mutex_);
    const Verdict verdict = files_.Next(path_);
    if (files_.dead_) return verdict.status;
    ++files_.syncs_;
    if (!verdict.status.ok()) node_->lost = true;
    if (!node_->lost) node_->durable = node_->bytes.size();
    return verdict.status;
  }

 private:
  FaultFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
  std::unique_ptr<OutputFile> real_;
};

FaultFileSystem::FaultFileSystem(std::string root) : root_(std::move(root)) {
  Load(root_);
  durable_ = now_;
}

void FaultFileSystem::Load(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (IsOthers(entry.path().filename())) continue;
    auto node = std::make_shared<Node>();
    node->is_directory = entry.is_directory();
    if (node->is_directory) {
      Load(entry.path());
    } else {
      std::stringstream bytes;
      bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      node->bytes = bytes.str();
      node->durable = node->bytes.size();
    }
    now_[entry.path()] = node;
  }
}

void FaultFileSystem::FailAt(int call, Fault fault) {
  const std::lock_guard lock(mutex_);
  calls_left_ = call;
  fault_ = fault;
}

bool FaultFileSystem::StopFailing() {
  const std::lock_guard lock(mutex_);
  return std::exchange(calls_left_, 1 << 30) <= 0;
}

FaultFileSystem::Verdict FaultFileSystem::Next(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  if (!dead_ && --calls_left_ != 0) return {};
  dead_ = dead_ || fault_ == Fault::kPowerLoss;
  const bool full = fault_ == Fault::kFull;
  return {.status = MakeError(
              full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
              path + ": failed by the test",
              {.reason = full ? "DISK_FULL" : "DISK_FAILED", .metadata = {}, .retry_after = {}}),
          .act = fault_ == Fault::kDoneAndFailed};
}

void FaultFileSystem::Make(const Change& change, Tree& tree) {
  if (!change.from.empty()) tree.erase(change.from);
  if (!change.to.empty()) tree[change.to] = change.node;
}

absl::Status FaultFileSystem::Log(Change change) {
  Make(change, now_);
  changes_.push_back(std::move(change));
  return absl::OkStatus();
}

void FaultFileSystem::Lose(Loss loss, std::mt19937& random, Node& node) const {
  const size_t unsynced = node.bytes.size() - node.durable;
  if (loss == Loss::kAll) node.bytes.resize(node.durable);
  if (loss == Loss::kSome && unsynced > 0) {
    const size_t kept = node.durable + random() % (unsynced + 1);
    // Written in any order: a block of zeros where the middle was not.
    const size_t hole = node.durable + random() % (kept - node.durable + 1);
    std::fill(node.bytes.begin() + static_cast<ptrdiff_t>(hole),
              node.bytes.begin() + static_cast<ptrdiff_t>(kept), '\0');
    node.bytes.resize(kept);
  }
  node.durable = node.bytes.size();
  node.lost = false;
}

void FaultFileSystem::Crash(Loss loss, uint32_t seed) {
  const std::lock_guard lock(mutex_);
  std::mt19937 random(seed);
  std::vector<Change> changes = std::exchange(changes_, {});
  if (loss == Loss::kSome) std::shuffle(changes.begin(), changes.end(), random);
  for (const Change& change : changes) {
    if (loss == Loss::kAll || (loss == Loss::kSome && random() % 2 == 0)) continue;
    Make(change, durable_);
  }
  std::erase_if(durable_, [&](const auto& entry) {
    const std::string parent = Parent(entry.first);
    return parent != root_ && !durable_.contains(parent);
  });
  for (const auto& [path, node] : durable_) Lose(loss, random, *node);
  now_ = durable_;
  WriteBack();
  dead_ = false;
  calls_left_ = 1 << 30;
}

void FaultFileSystem::WriteBack() {
  for (const auto& entry : std::filesystem::directory_iterator(root_)) {
    if (!IsOthers(entry.path().filename())) std::filesystem::remove_all(entry.path());
  }
  for (const auto& [path, node] : now_) {  // Directories sort before what is in them.
    if (node->is_directory) {
      std::filesystem::create_directory(path);
    } else {
      std::ofstream(path, std::ios::binary) << node->bytes;
    }
  }
}

absl::StatusOr<std::unique_ptr<OutputFile>> FaultFileSystem::Create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(path);
  if (!verdict.act) return verdict.status;
  FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> real, PosixFileSystem().Create(path));
  auto node = std::make_shared<Node>();
  FERMATA_RETURN_IF_ERROR(Log({.from = "", .to = path, .node = node}));
  FERMATA_RETURN_IF_ERROR(verdict.status);
  return std::make_unique<File>(*this, path, node, std::move(real));
}

absl::StatusOr<int64_t> FaultFileSystem::Size(const std::string& path) const {
  FERMATA_RETURN_IF_ERROR(Next(path).status);
  return PosixFileSystem().Size(path);
}

absl::StatusOr<size_t> FaultFileSystem::Read(const std::string& path, int64_t offset,
                                             std::span<std::byte> bytes) const {
  FERMATA_RETURN_IF_ERROR(Next(path).status);
  return PosixFileSystem().Read(path, offset, bytes);
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(from);
  if (!verdict.act) return verdict.status;
  FERMATA_RETURN_IF_ERROR(PosixFileSystem().Rename(from, to));
  FERMATA_RETURN_IF_ERROR(Log({.from = from, .to = to, .node = now_.at(from)}));
  return verdict.status;
}

absl::Status FaultFileSystem::Remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(path);
  if (!verdict.act) return verdict.status;
  FERMATA_RETURN_IF_ERROR(PosixFileSystem().Remove(path));
  if (now_.contains(path)) FERMATA_RETURN_IF_ERROR(Log({.from = path, .to = "", .node = nullptr}));
  return verdict.status;
}

absl::Status FaultFileSystem::MakeDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(path);
  if (!verdict.act) return verdict.status;
  FERMATA_RETURN_IF_ERROR(PosixFileSystem().MakeDirectory(path));
  if (path != root_ && !now_.contains(path)) {
    auto node = std::make_shared<Node>();
    node->is_directory = true;
    FERMATA_RETURN_IF_ERROR(Log({.from = "", .to = path, .node = node}));
  }
  return verdict.status;
}

absl::Status FaultFileSystem::RemoveDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(path);
  if (!verdict.act) return verdict.status;
  FERMATA_RETURN_IF_ERROR(PosixFileSystem().RemoveDirectory(path));
  FERMATA_RETURN_IF_ERROR(Log({.from = path, .to = "", .node = nullptr}));
  return verdict.status;
}

absl::Status FaultFileSystem::SyncDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = Next(path);
  if (!verdict.act) return verdict.status;
  FERMATA_RETURN_IF_ERROR(PosixFileSystem().List(path).status());
  ++syncs_;
  std::vector<Change> others;
  for (Change& change : changes_) {
    const bool here = (!change.from.empty() && Parent(change.from) == path) ||
                      (!change.to.empty() && Parent(change.to) == path);
    if (here) {
      Make(change, durable_);
    } else {
      others.push_back(std::move(change));
    }
  }
  changes_ = std::move(others);
  return verdict.status;
}

absl::StatusOr<std::vector<FileSystem::Entry>> FaultFileSystem::List(
    const std::string& directory) const {
  FERMATA_RETURN_IF_ERROR(Next(directory).status);
  return PosixFileSystem().List(directory);
}

absl::StatusOr<int64_t> FaultFileSystem::FreeBytes(const std::string& directory) const {
  FERMATA_RETURN_IF_ERROR(Next(directory).status);
  return free_bytes_;
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> FaultFileSystem::Lock(const std::string& directory) {
  FERMATA_RETURN_IF_ERROR(Next(directory).status);
  return PosixFileSystem().Lock(directory);
}

}  // namespace fermata
