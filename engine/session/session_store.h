#ifndef FERMATA_ENGINE_SESSION_SESSION_STORE_H_
#define FERMATA_ENGINE_SESSION_SESSION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/session/disk_tier.h"
#include "engine/session/snapshot.h"
#include "engine/session/tier.h"

namespace fermata {

// Learns what the store does, for metrics and logs. Called on any thread; must not block or call
// the store.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  // A state was brought up from `tier` for a turn ("memory": it was there).
  virtual void Restored(std::string_view tier, absl::Duration duration) = 0;
  // Commits that were made durable together.
  virtual void Persisted(int64_t commits, absl::Duration duration) = 0;
  // Something that needs a person's eye: damage, a disk that fails. `what` quotes no text of a
  // client's.
  virtual void Trouble(std::string_view session_id, const absl::Status& what) = 0;
};

struct SessionStoreOptions {
  std::string model_fingerprint;
  int64_t state_bytes = 0;                    // Of every session.
  int64_t memory_bytes = 0;                   // Limit of the memory tier, records included.
  std::optional<absl::Duration> default_ttl;  // Of sessions whose creator names none.
  Durability default_durability = Durability::kMemory;
  int32_t default_max_checkpoints = 0;
  absl::Duration retry_after =
      absl::Seconds(1);  // Told to clients when the store is full or a session busy.
  std::function<absl::Time()> clock = absl::Now;
  SessionObserver* observer = nullptr;  // May be null; must outlive the store.
};

inline constexpr int kMaxPageSize = 1000;

// What callers may send; the store checks it too, naming the fields "id", "labels", "ttl" and
// "page_size". OK, or INVALID_ARGUMENT naming `field`.
//
// An id has up to kMaxSessionIdBytes of [A-Za-z0-9._:-] and begins with a letter or digit.
absl::Status ValidateSessionId(std::string_view id, std::string_view field);
// At most kMaxLabels. A key has up to kMaxLabelKeyBytes of [A-Za-z0-9._/-] and begins with a letter
// or digit; a value is up to kMaxLabelValueBytes of UTF-8.
absl::Status ValidateLabels(const std::map<std::string, std::string>& labels,
                            std::string_view field);
// From 1 ms to 100 years.
absl::Status ValidateTtl(absl::Duration ttl, std::string_view field);

// What the store counts; gauges are of now, the rest since start.
struct SessionStoreStats {
  struct OfTier {
    std::string_view tier;
    int64_t sessions = 0;  // Whose newest snapshot is here, and in no tier above.
    TierUsage usage;
  };
  int64_t sessions = 0;
  int64_t positions = 0;         // Sum of all sessions' positions.
  int64_t checkpoints = 0;       // Of all sessions.
  int64_t checkpoint_bytes = 0;  // Of states that checkpoints alone keep, each counted once.
  std::vector<OfTier> tiers;
  int64_t capacity = 0;     // Sessions that fit into memory at least, whatever their records hold.
  int64_t evictions = 0;    // Dropped to make room; none where there is a tier below memory.
  int64_t expirations = 0;  // Dropped by their time to live.
  int64_t moves_down_pressure = 0;  // Sessions that left memory to make room,
  int64_t moves_down_drain = 0;     // or because the server stops;
  int64_t moves_up_turn = 0;        // and that came up for a turn.
  int64_t damaged = 0;              // Snapshots that failed their checksums.
};

// The sessions of one server, with the rule that one turn at a time works on a session.
//
// Sessions live in memory, and in a tier below it where there is one: their snapshots move down,
// least recently used first, when memory is short, and come up when a turn wants them. Without a
// tier below, the least recently used session is dropped instead (never a pinned one). A commit is
// durable where the session's Durability says so. What the tier below holds is never dropped to make
// room: where it is full, commits and creations fail.
//
// Uses of a session are its creation, its turns (from Begin to the lease's end, committed or not),
// updates and rewinds; looking at it (Get, List) and forking it is none. A session with a time to
// live expires that long after its last commit or update, but never in a turn, and never pinned.
//
// Thread-safe. Begin, ReadState, Commit, DropExpired and stats never wait for a tier below memory;
// all else may. No call waits for another session's turn.
//
// Errors carry metadata {"session_id"}: NOT_FOUND with reason SESSION_NOT_FOUND, or SESSION_EXPIRED
// for one that was evicted or has expired (of the last 65,536 such); ABORTED with reason
// SESSION_BUSY and a time to retry; ABORTED with reason POSITION_MISMATCH and metadata {"position":
// actual}, or REVISION_MISMATCH and {"revision": actual}; ALREADY_EXISTS with reason SESSION_EXISTS;
// FAILED_PRECONDITION with reason SESSION_PINNED; NOT_FOUND with reason CHECKPOINT_NOT_FOUND;
// RESOURCE_EXHAUSTED with reason SESSION_MEMORY_EXHAUSTED or DISK_FULL and a time to retry; DATA_LOSS
// with reason SNAPSHOT_DAMAGED for one that was altered where it lay. Damage is told once, with
// metadata {"position"} of the newest whole snapshot (a checkpoint), which is the session's from then
// on; where there is none it can only be deleted.
class SessionStore {
 public:
  // Over memory alone. When not one session fits into memory_bytes, stats().capacity is 0 and every
  // creation fails: the server checks that at its start.
  explicit SessionStore(SessionStoreOptions options);
  // Over memory and `disk`, with the sessions that were found there.
  SessionStore(SessionStoreOptions options, DiskTier::Opened disk);
  // The same over any tier. `found` is in the order of the keys.
  SessionStore(SessionStoreOptions options, std::unique_ptr<Tier> lower,
               std::vector<DiskTier::Found> found);
  // No lease may be left. What is in memory alone is lost, unless Flush was called.
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  struct CreateOptions {
    std::string id;  // Empty: the store makes one.
    std::map<std::string, std::string> labels;
    std::optional<absl::Duration> ttl;
    std::optional<Durability> durability;
    std::optional<int32_t> max_checkpoints;
  };
  // A new session at position 0.
  absl::StatusOr<SessionRecord> Create(const CreateOptions& options);
  absl::StatusOr<SessionRecord> Get(std::string_view id) const;

  // What a caller last saw of a session: it is left alone when it has moved on since.
  struct Expected {
    std::optional<int64_t> position;
    std::optional<uint64_t> revision;
  };
  // Deletes the session and its checkpoints, in all tiers.
  absl::Status Delete(std::string_view id, const Expected& expected = {});

  struct UpdateOptions {
    Expected expected;
    // Replaces all labels when set.
    std::optional<std::map<std::string, std::string>> labels;
    // The outer optional: whether to change it; the inner: none lives until evicted or deleted.
    std::optional<std::optional<absl::Duration>> ttl;
    std::optional<Durability> durability;
    std::optional<int32_t> max_checkpoints;
    std::optional<bool> pinned;
  };
  absl::StatusOr<SessionRecord> Update(std::string_view id, const UpdateOptions& options);

  // A place in a session's past. Without any: its newest snapshot.
  struct Place {
    std::optional<uint64_t> turns;    // The checkpoint after so many turns,
    std::optional<int64_t> position;  // or the newest one at this position,
    bool before_last_turn = false;    // or the one before the last committed turn.
  };
  // Takes the session back to a checkpoint; later ones go.
  absl::StatusOr<SessionRecord> Rewind(std::string_view id, const Place& place,
                                       const Expected& expected = {});

  struct ForkOptions {
    CreateOptions target;  // What is not set is as in the source; labels are the target's alone.
    Place place;
    Expected expected;  // Of the source.
  };
  // A new session that goes on from where `source` stands, or stood. They share the state's bytes
  // until one of them changes.
  absl::StatusOr<SessionRecord> Fork(std::string_view source, const ForkOptions& options);

  // The session's snapshot as FORMAT.md lays out an export: its head, followed by the state.
  struct Exported {
    SessionRecord record;
    std::string head;
    std::vector<std::byte> state;
  };
  absl::StatusOr<Exported> Export(std::string_view id, const Place& place) const;

  struct ImportOptions {
    std::string id;        // Empty: the id that it was exported under.
    bool replace = false;  // A session of that id, if there is one.
  };
  // Makes a session of an exported snapshot, after checking all of it. INVALID_ARGUMENT with reason
  // SNAPSHOT_DAMAGED and metadata {"offset"} for altered bytes or numbers that are not finite;
  // FAILED_PRECONDITION with reason SNAPSHOT_VERSION, or SNAPSHOT_MODEL and metadata naming what
  // differs.
  absl::StatusOr<SessionRecord> Import(std::string_view snapshot, const ImportOptions& options);

  struct ListOptions {
    int page_size = 100;                        // From 1; more than kMaxPageSize is that many.
    std::string page_token;                     // Of the page before; empty for the first.
    std::map<std::string, std::string> labels;  // Only sessions that have all of these.
  };
  struct Page {
    std::vector<SessionRecord> sessions;  // In the order of their ids.
    std::string next_page_token;          // Empty on the last page.
  };
  // Sessions that are there during the whole listing are listed exactly once; those that come or go
  // meanwhile, once or not at all. INVALID_ARGUMENT for a page token that is not one of ours, or
  // not of a listing with the same labels.
  absl::StatusOr<Page> List(const ListOptions& options) const;

  // A session in a turn. Holds the session (no other turn, change, fork, export or deletion) until
  // it is committed or destroyed; destroyed without a commit, it leaves the session as it was, and
  // one that was to be created does not come to be. Movable; used by one thread at a time; must not
  // outlive the store.
  class Lease {
   public:
    Lease();
    Lease(Lease&&) noexcept;
    Lease& operator=(Lease&&) noexcept;
    ~Lease();

    bool valid() const;

    // Brings the session into memory and sets aside what its commit needs. Blocks while others move
    // down to make room and while the state is read. Must be called before what follows. On an error
    // the lease can only be destroyed.
    absl::Status Fetch();
    // The same where nothing has to be waited for; false, and nothing done, where Fetch would block.
    absl::StatusOr<bool> TryFetch();

    // The session comes to be with the commit.
    bool creates() const;
    // As committed before this turn.
    const SessionRecord& record() const;
    // Copies the committed state; `state` has state_bytes bytes. All zero at position 0. DATA_LOSS
    // when the stored snapshot is damaged.
    absl::Status ReadState(std::span<std::byte> state) const;

    // Told the record as it is now, or why the session is as it was before.
    using Committed = std::function<void(absl::StatusOr<SessionRecord>)>;
    // Makes position, pending token and sampler memory of `record` and `state` the session's, in one
    // step, counts a turn, and ends the lease. `done` is called when it is durable as the session
    // wants it: at once on this thread where that is in memory, which can not fail, else on a thread
    // of the store's, which it must not hold up; until then the session is busy. A record that
    // CheckRecord refuses, or a state of another size, is a programmer's error and ends the process.
    void Commit(const SessionRecord& record, std::span<const std::byte> state, Committed done);

   private:
    friend class SessionStore;
    struct Impl;
    explicit Lease(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  struct BeginOptions {
    std::string id;  // Empty with create_if_missing: the store makes one.
    bool create_if_missing = false;
    std::string fork_from;  // A session to be created starts as a fork of this one; empty: of none.
    std::optional<int64_t>
        expected_position;                 // That of a session to be created is 0, or the fork's.
    std::optional<absl::Duration> ttl;     // Replaces the session's with the commit, when set.
    std::optional<Durability> durability;  // Of this commit alone, and of a session that it makes.
    std::optional<int32_t> max_checkpoints;  // Of a session that it makes.
  };
  absl::StatusOr<Lease> Begin(const BeginOptions& options);

  // Drops what has expired. The engine calls it from time to time; every access checks as well.
  // Files go soon after, on a thread of the store's.
  void DropExpired();

  // Writes what is in memory alone to the tier below, if there is one: before the server stops.
  // Fails with the first error, after trying all. Sessions in turns are left out.
  absl::Status Flush();

  SessionStoreStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_STORE_H_
