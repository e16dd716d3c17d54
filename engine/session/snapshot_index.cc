#include "engine/session/snapshot_index.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "sqlite3.h"

namespace fermata {
namespace {

// The directory's lock keeps everyone else out of the database, so that SQLite need not share it. A
// checkpoint of the log syncs; a commit does not.
constexpr char kSetUp[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS snapshots (key INTEGER PRIMARY KEY, head BLOB NOT NULL);";

absl::Status IndexFailed(const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable, "the index of snapshots: " + why,
                   {.reason = "INDEX_FAILED", .metadata = {}, .retry_after = {}});
}

// Ends a statement's run with the scope.
class Reset {
 public:
  explicit Reset(sqlite3_stmt* statement) : statement_(statement) {}
  ~Reset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Reset(const Reset&) = delete;
  Reset& operator=(const Reset&) = delete;

 private:
  sqlite3_stmt* statement_;
};

std::string_view Blob(sqlite3_stmt* statement, int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return {bytes,
          bytes == nullptr ? 0 : static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

void SnapshotIndex::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SnapshotIndex::Closer::operator()(sqlite3* database) const { sqlite3_close(database); }

absl::StatusOr<std::unique_ptr<SnapshotIndex>> SnapshotIndex::Open(const std::string& path) {
  std::unique_ptr<SnapshotIndex> index(new SnapshotIndex);
  sqlite3* database = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  index->database_.reset(database);
  if (opened != SQLITE_OK) return IndexFailed(sqlite3_errstr(opened));
  FERMATA_RETURN_IF_ERROR(index->Prepare());
  return index;
}

SnapshotIndex::~SnapshotIndex() = default;

absl::Status SnapshotIndex::Prepare() {
  FERMATA_RETURN_IF_ERROR(Run(kSetUp));
  FERMATA_ASSIGN_OR_RETURN(all_, Compile("SELECT key, head FROM snapshots ORDER BY key"));
  FERMATA_ASSIGN_OR_RETURN(one_, Compile("SELECT head FROM snapshots WHERE key = ?"));
  FERMATA_ASSIGN_OR_RETURN(insert_, Compile("INSERT OR REPLACE INTO snapshots VALUES (?, ?)"));
  FERMATA_ASSIGN_OR_RETURN(remove_, Compile("DELETE FROM snapshots WHERE key = ?"));
  return absl::OkStatus();
}

absl::Status SnapshotIndex::Failed() const { return IndexFailed(sqlite3_errmsg(database_.get())); }

absl::Status SnapshotIndex::Run(const char* sql) const {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Failed();
  return absl::OkStatus();
}

absl::StatusOr<SnapshotIndex::Statement> SnapshotIndex::Compile(const char* sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK) {
    return Failed();
  }
  return Statement(statement);
}

absl::Status SnapshotIndex::Step(sqlite3_stmt* statement) const {
  const Reset reset(statement);
  if (sqlite3_step(statement) != SQLITE_DONE) return Failed();
  return absl::OkStatus();
}

absl::Status SnapshotIndex::ForEach(absl::FunctionRef<void(const Row& row)> row) const {
  const std::lock_guard lock(mutex_);
  const Reset reset(all_.get());
  int result;
  while ((result = sqlite3_step(all_.get())) == SQLITE_ROW) {
    row({.key = static_cast<SnapshotKey>(sqlite3_column_int64(all_.get(), 0)),
         .head = Blob(all_.get(), 1)});
  }
  if (result != SQLITE_DONE) return Failed();
  return absl::OkStatus();
}

absl::StatusOr<std::string> SnapshotIndex::Head(SnapshotKey key) const {
  const std::lock_guard lock(mutex_);
  const Reset reset(one_.get());
  sqlite3_bind_int64(one_.get(), 1, static_cast<sqlite3_int64>(key));
  const int result = sqlite3_step(one_.get());
  if (result == SQLITE_DONE) return absl::NotFoundError("not in the index");
  if (result != SQLITE_ROW) return Failed();
  return std::string(Blob(one_.get(), 0));
}

absl::Status SnapshotIndex::Change(std::span<const SnapshotKey> removed,
                                   std::span<const Row> added) {
  for (const SnapshotKey key : removed) {
    sqlite3_bind_int64(remove_.get(), 1, static_cast<sqlite3_int64>(key));
    FERMATA_RETURN_IF_ERROR(Step(remove_.get()));
  }
  for (const Row& row : added) {
    sqlite3_bind_int64(insert_.get(), 1, static_cast<sqlite3_int64>(row.key));
    sqlite3_bind_blob(insert_.get(), 2, row.head.data(), static_cast<int>(row.head.size()),
                      SQLITE_STATIC);
    FERMATA_RETURN_IF_ERROR(Step(insert_.get()));
  }
  return Run("COMMIT");
}

absl::Status SnapshotIndex::Update(std::span<const SnapshotKey> removed,
                                   std::span<const Row> added) {
  if (removed.empty() && added.empty()) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  FERMATA_RETURN_IF_ERROR(Run("BEGIN"));
  const absl::Status changed = Change(removed, added);
  // An error may have rolled it back already.
  if (!changed.ok()) Run("ROLLBACK").IgnoreError();
  return changed;
}

absl::Status SnapshotIndex::Sync() {
  const std::lock_guard lock(mutex_);
  if (sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                                nullptr) != SQLITE_OK) {
    return Failed();
  }
  return absl::OkStatus();
}

}  // namespace fermata
