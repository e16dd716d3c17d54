#ifndef FERMATA_ENGINE_SESSION_SNAPSHOT_INDEX_H_
#define FERMATA_ENGINE_SESSION_SNAPSHOT_INDEX_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/session/snapshot.h"

struct sqlite3;
struct sqlite3_stmt;

namespace fermata {

// The heads of a directory's files in one SQLite database, so that a start need not open each file.
// FORMAT.md has its schema. It says nothing that the files do not say: it may be lost at any time,
// and a head that is read from it carries its own checksums.
//
// Thread-safe. Errors: NOT_FOUND; UNAVAILABLE with reason INDEX_FAILED, also for a damaged database.
class SnapshotIndex {
 public:
  struct Row {
    SnapshotKey key = 0;
    std::string_view head;
  };

  // Makes the database when it is missing.
  static absl::StatusOr<std::unique_ptr<SnapshotIndex>> Open(const std::string& path);
  ~SnapshotIndex();
  SnapshotIndex(const SnapshotIndex&) = delete;
  SnapshotIndex& operator=(const SnapshotIndex&) = delete;

  // In the order of their keys. `row` must not call the index.
  absl::Status ForEach(absl::FunctionRef<void(const Row& row)> row) const;
  absl::StatusOr<std::string> Head(SnapshotKey key) const;
  // All of it or nothing. Not durable before the next Sync.
  absl::Status Update(std::span<const SnapshotKey> removed, std::span<const Row> added);
  // Makes durable what was done so far.
  absl::Status Sync();

 private:
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;
  struct Closer {
    void operator()(sqlite3* database) const;
  };

  SnapshotIndex() = default;
  absl::Status Prepare();
  absl::Status Run(const char* sql) const;
  absl::StatusOr<Statement> Compile(const char* sql) const;
  absl::Status Step(sqlite3_stmt* statement) const;
  absl::Status Failed() const;
  absl::Status Change(std::span<const SnapshotKey> removed, std::span<const Row> added);

  mutable std::mutex mutex_;  // Guards what follows.
  std::unique_ptr<sqlite3, Closer> database_;
  Statement all_, one_, insert_, remove_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SNAPSHOT_INDEX_H_
