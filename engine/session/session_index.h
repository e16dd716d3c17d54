#ifndef FERMATA_ENGINE_SESSION_SESSION_INDEX_H_
#define FERMATA_ENGINE_SESSION_SESSION_INDEX_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "engine/session/snapshot.h"

namespace fermata {

// The place in a session's past that its snapshot of `record` is.
inline Checkpoint CheckpointOf(const SnapshotName& snapshot, const SessionRecord& record) {
  return {.snapshot = snapshot,
          .position = record.position,
          .turns = record.turns,
          .time = record.update_time};
}

// A snapshot of a session, and where it lies.
struct Kept {
  Checkpoint at;
  bool in_memory = false;
  bool below = false;  // In the tier below memory.

  SnapshotKey key() const { return at.snapshot.key; }
  SnapshotKey state() const { return at.snapshot.state; }
};

// What the store knows of its sessions without asking a tier: which there are, where their
// snapshots lie, which are leased, which was used longest ago, which expires first. Every operation
// takes O(log n) at most, unless said. Not thread-safe.
//
// An entry is leased (in a turn, or being changed) or idle. One that was just added is leased and
// not settled: the session does not exist yet, but nobody else may create it. Besides, entries are
// held for as long as somebody reads their snapshots. Only idle entries that are not held are
// offered for removal.
class SessionIndex {
 public:
  struct Entry {
    std::string_view id() const { return place->first; }
    bool in_memory() const;  // Any of its snapshots is.
    bool clean() const;      // All of them are below.

    bool leased = true;
    bool settled = false;
    bool pinned = false;
    bool damaged = false;  // No whole snapshot is left.
    bool going = false;    // Is being deleted, by whoever has it leased.
    int holds = 0;
    Kept head;                      // Set through Settle, or as long as the entry is not settled.
    std::vector<Kept> checkpoints;  // Oldest first.
    SnapshotName stale;             // The newest below, where that is neither head nor checkpoint.
    uint64_t revision = 0;
    absl::Time expiry = absl::InfiniteFuture();

   private:
    friend class SessionIndex;
    std::map<std::string, Entry, std::less<>>::iterator place;
    std::list<Entry*>::iterator use;  // In idle_, where listed.
    bool listed = false;
  };

  // `pinned_may_go`: whether Victim gives pinned sessions, too.
  explicit SessionIndex(bool pinned_may_go) : pinned_may_go_(pinned_may_go) {}

  // The entry of `id`, or null.
  Entry* Find(std::string_view id);

  // A new entry, leased; there must be none of that id.
  Entry& Add(std::string_view id);

  // Takes an idle entry out of what may be removed.
  void Lease(Entry& entry);

  // Makes a leased and settled entry idle: the one that was used last.
  void Release(Entry& entry);

  // Notes what the session is from now on, of a leased entry: `record`, whose checkpoints are not
  // looked at, in snapshot `head`, and `checkpoints`.
  void Settle(Entry& entry, const SessionRecord& record, const Kept& head,
              std::vector<Kept> checkpoints);
  // That other checkpoints, or the same ones elsewhere, are kept, and where the head lies.
  void Keep(Entry& entry, std::vector<Kept> checkpoints);
  void Place(Entry& entry, bool in_memory, bool below);

  void Remove(Entry& entry);

  // The idle entry in memory that was used longest ago, and that has nothing in memory alone where
  // `clean` is asked for; null when there is none. Passes over what is held.
  Entry* Victim(bool clean = false) const;
  // Makes an idle entry the one that was used last.
  void Touch(Entry& entry);

  // The idle entry that expires first, if it has expired at `now`; else null.
  Entry* Expired(absl::Time now) const;

  // Up to `count` ids after `id`, in order, of sessions that exist and have not expired at `now`.
  std::vector<std::string> After(std::string_view id, size_t count, absl::Time now) const;

  // Calls `each` for all entries; O(n).
  void ForEach(const std::function<void(Entry&)>& each);

  int64_t sessions() const { return sessions_; }    // That are settled.
  int64_t in_memory() const { return in_memory_; }  // Whose heads are in memory.
  int64_t positions() const { return positions_; }  // Their sum.
  int64_t checkpoints() const { return checkpoints_; }
  // States that are those of checkpoints alone.
  int64_t checkpoint_states() const { return checkpoint_states_; }

 private:
  using Sessions = std::map<std::string, Entry, std::less<>>;
  struct Users {
    int32_t heads = 0;
    int32_t checkpoints = 0;
  };

  // Puts an entry into idle_ and takes it out, as its place and lease want it.
  void List(Entry& entry);
  void CountState(SnapshotKey state, int heads, int checkpoints);
  void CountHead(const Entry& entry, int by);
  void CountCheckpoints(const Entry& entry, int by);

  const bool pinned_may_go_;
  Sessions entries_;
  std::list<Entry*> idle_;  // Idle entries in memory, least recently used first.
  std::set<std::pair<absl::Time, Entry*>> expiries_;  // Of idle entries with an end.
  absl::flat_hash_map<SnapshotKey, Users> states_;    // Of settled entries.
  int64_t sessions_ = 0;
  int64_t in_memory_ = 0;
  int64_t positions_ = 0;
  int64_t checkpoints_ = 0;
  int64_t checkpoint_states_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_INDEX_H_
