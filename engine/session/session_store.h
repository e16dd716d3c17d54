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
#include "engine/session/snapshot.h"
#include "engine/session/tier.h"

namespace fermata {

struct SessionStoreOptions {
  std::string model_fingerprint;
  int64_t state_bytes = 0;                    // Of every session.
  int64_t memory_bytes = 0;                   // Limit of the memory tier, records included.
  std::optional<absl::Duration> default_ttl;  // Of sessions whose creator names none.
  absl::Duration retry_after =
      absl::Seconds(1);  // Told to clients when the store is full or a session busy.
  std::function<absl::Time()> clock = absl::Now;
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
  int64_t sessions = 0;
  int64_t bytes = 0;  // That they, and those being created, take from memory_limit.
  int64_t memory_limit = 0;
  int64_t capacity = 0;     // Sessions that fit.
  int64_t positions = 0;    // Sum of all sessions' positions.
  int64_t evictions = 0;    // Dropped to make room.
  int64_t expirations = 0;  // Dropped by their time to live.
};

// The sessions of one server, with the rule that one turn at a time works on a session.
// Thread-safe. Nothing here waits for a turn, and no state is copied while others are kept waiting.
//
// Uses of a session are its creation, its turns (from Begin to the lease's end, committed or not)
// and updates; looking at it (Get, List) is none. When there is no room for a new session, first
// what has expired goes, then the session that was used longest ago; never one in a turn. A session
// with a time to live expires that long after its last commit or update, but never in a turn.
//
// Errors carry metadata {"session_id"}: NOT_FOUND with reason SESSION_NOT_FOUND, or SESSION_EXPIRED
// for one that was evicted or has expired (of the last 65,536 such); ABORTED with reason
// SESSION_BUSY and a time to retry; ABORTED with reason POSITION_MISMATCH and metadata {"position":
// actual}; ALREADY_EXISTS with reason SESSION_EXISTS; RESOURCE_EXHAUSTED with reason
// SESSION_MEMORY_EXHAUSTED and a time to retry when every session in memory is in a turn; DATA_LOSS
// with reason SNAPSHOT_DAMAGED for one that was altered in memory: it can only be deleted.
class SessionStore {
 public:
  // Over memory. When not one session fits into memory_bytes, stats().capacity is 0 and every
  // creation fails: the server checks that at its start.
  explicit SessionStore(SessionStoreOptions options);
  // Over `tier`; memory_bytes is not looked at. A Put on a reserved place must not fail.
  SessionStore(SessionStoreOptions options, std::unique_ptr<Tier> tier);
  // No lease may be left.
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  struct CreateOptions {
    std::string id;  // Empty: the store makes one.
    std::map<std::string, std::string> labels;
    std::optional<absl::Duration> ttl;
  };
  // A new session at position 0.
  absl::StatusOr<SessionRecord> Create(const CreateOptions& options);
  absl::StatusOr<SessionRecord> Get(std::string_view id) const;
  absl::Status Delete(std::string_view id);

  struct UpdateOptions {
    // Replaces all labels when set.
    std::optional<std::map<std::string, std::string>> labels;
    // The outer optional: whether to change it; the inner: none lives until evicted or deleted.
    std::optional<std::optional<absl::Duration>> ttl;
  };
  absl::StatusOr<SessionRecord> Update(std::string_view id, const UpdateOptions& options);

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

  // A session in a turn. Holds the session (no other turn, update or deletion) until it is
  // committed or destroyed; destroyed without a commit, it leaves the session as it was, and one
  // that was to be created does not come to be. Movable; used by one thread at a time; must not
  // outlive the store.
  class Lease {
   public:
    Lease();
    Lease(Lease&&) noexcept;
    Lease& operator=(Lease&&) noexcept;
    ~Lease();

    bool valid() const;
    // Whether the session comes to be with the commit.
    bool creates() const;
    // As committed before this turn.
    const SessionRecord& record() const;
    // Copies the committed state; `state` has state_bytes bytes. All zero at position 0. DATA_LOSS
    // when the stored snapshot is damaged.
    absl::Status ReadState(std::span<std::byte> state) const;
    // Makes position, pending token and sampler memory of `record` and `state` the session's, in
    // one step that can not fail for want of memory: Begin has set it aside. Counts a turn, and
    // ends the lease. Returns the record as it is now. A record that CheckRecord refuses, or a
    // state of another size, is a programmer's error and ends the process.
    SessionRecord Commit(const SessionRecord& record, std::span<const std::byte> state);

   private:
    friend class SessionStore;
    struct Impl;
    explicit Lease(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  struct BeginOptions {
    std::string id;  // Empty with create_if_missing: the store makes one.
    bool create_if_missing = false;
    std::optional<int64_t> expected_position;  // That of a session to be created is 0.
    std::optional<absl::Duration> ttl;         // Replaces the session's with the commit, when set.
  };
  absl::StatusOr<Lease> Begin(const BeginOptions& options);

  // Drops what has expired. The engine calls it from time to time; every access checks as well.
  void DropExpired();

  SessionStoreStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_STORE_H_
