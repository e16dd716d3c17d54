#ifndef FERMATA_TESTS_ENGINE_SESSION_FAULT_FILE_SYSTEM_H_
#define FERMATA_TESTS_ENGINE_SESSION_FAULT_FILE_SYSTEM_H_

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "engine/base/file_system.h"

namespace fermata {

// A directory of the system's, below which only what was synced is safe: a crash takes the rest, or
// some of it in any order, and a call of one's choice fails. Files that are written by other means (the
// index) are left alone.
class FaultFileSystem : public FileSystem {
 public:
  // What the directory holds now is durable. It must exist.
  explicit FaultFileSystem(std::string root);

  enum class Fault {
    kFull,           // The call does nothing, or the half of it.
    kFailed,         // The same, for another reason.
    kDoneAndFailed,  // The call does what it should, and says that it did not.
    kPowerLoss,      // It does nothing, nor does any after it, until Crash.
  };
  // Of the `call`th call from now on, which is 1.
  void FailAt(int call, Fault fault);
  // Whether there was such a call; from now on there is none, but that after a loss of power all
  // fail.
  bool StopFailing();

  enum class Loss {
    kAll,  // Of what was not synced.
    kNone,
    kSome,  // Names in any order, and ends of files torn.
  };
  // Makes the directory what it is after a loss of power, with everything durable, and works again.
  void Crash(Loss loss, uint32_t seed);

  void set_free_bytes(int64_t bytes) { free_bytes_ = bytes; }
  int64_t syncs() const { return syncs_; }  // Of files and directories, so far.

  absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path) override;
  absl::StatusOr<int64_t> Size(const std::string& path) const override;
  absl::StatusOr<size_t> Read(const std::string& path, int64_t offset,
                              std::span<std::byte> bytes) const override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<Entry>> List(const std::string& directory) const override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& directory) const override;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;

 private:
  class File;
  struct Node {
    bool is_directory = false;
    std::string bytes;
    size_t durable = 0;  // Of the bytes.
    bool lost = false;   // A sync failed: what came before is not written any more.
  };
  using Tree = std::map<std::string, std::shared_ptr<Node>>;
  // A change of names that is not durable yet: `node` is not at `from` any more, but at `to`.
  struct Change {
    std::string from, to;  // Either may be empty.
    std::shared_ptr<Node> node;
  };

  // What a call does by itself, and whether it may do it.
  struct Verdict {
    absl::Status status;  // Told at the end.
    bool act = true;
  };
  Verdict Next(const std::string& path) const;
  void Load(const std::string& directory);
  absl::Status Log(Change change);
  static void Make(const Change& change, Tree& tree);
  void Lose(Loss loss, std::mt19937& random, Node& node) const;
  void WriteBack();

  const std::string root_;
  mutable std::recursive_mutex mutex_;
  mutable int calls_left_ = 1 << 30;
  Fault fault_ = Fault::kFailed;
  mutable bool dead_ = false;
  int64_t free_bytes_ = int64_t{1} << 40;
  int64_t syncs_ = 0;
  Tree now_, durable_;
  std::vector<Change> changes_;
};

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SESSION_FAULT_FILE_SYSTEM_H_
