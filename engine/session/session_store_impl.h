#ifndef FERMATA_ENGINE_SESSION_SESSION_STORE_IMPL_H_
#define FERMATA_ENGINE_SESSION_SESSION_STORE_IMPL_H_

// The inside of SessionStore, for its own files:
//   session_store.cc           creation, looking, updates, deletion
//   session_store_start.cc     what a directory holds
//   session_store_forks.cc     forks and rewinds
//   session_store_transfer.cc  export and import
//   lease.cc                   turns
//   publish.cc                 how a snapshot comes in the place of another; room; expiry
//   mover.cc                   moves between the tiers
//   damage.cc                  snapshots that are not what was put

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/session/batcher.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_index.h"
#include "engine/session/session_store.h"
#include "engine/session/tombstones.h"

namespace fermata {

// 128 random bits, for whoever knows an id may use the session.
absl::StatusOr<std::string> GenerateSessionId();

// Who may touch a session's snapshots: the one who has its entry leased (a Claim), alone; or any
// number who hold it, to read them (a Hold). A session can be leased while it is held, so that no
// turn is refused for a move; whoever has the lease then waits for the holds before touching
// anything. No holds are taken on a leased entry. The mutex is never held while a tier below memory
// is asked, nor while a state is copied.
struct SessionStore::Impl {
  using Entry = SessionIndex::Entry;
  using Lock = std::unique_lock<std::mutex>;
  using Room = MemoryTier::Room;

  // The lease of an entry; ends with it. An entry that is not settled by then is removed.
  class Claim {
   public:
    Claim() = default;
    Claim(Impl* store, Entry* entry) : store_(store), entry_(entry) {}
    Claim(Claim&& other) noexcept
        : store_(other.store_), entry_(std::exchange(other.entry_, nullptr)) {}
    Claim& operator=(Claim&& other) noexcept {
      std::swap(store_, other.store_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Claim() {
      if (entry_ != nullptr) store_->EndLease(*entry_);
    }
    Entry& operator*() const { return *entry_; }
    Entry* operator->() const { return entry_; }
    // Of an entry that is removed.
    void Forget() { entry_ = nullptr; }

   private:
    Impl* store_ = nullptr;
    Entry* entry_ = nullptr;
  };

  class Hold {
   public:
    Hold() = default;
    Hold(Impl* store, Entry* entry) : store_(store), entry_(entry) {}
    Hold(Hold&& other) noexcept
        : store_(other.store_), entry_(std::exchange(other.entry_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(store_, other.store_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Hold() {
      if (entry_ != nullptr) store_->EndHold(*entry_);
    }

   private:
    Impl* store_ = nullptr;
    Entry* entry_ = nullptr;
  };

  Impl(SessionStoreOptions options, std::unique_ptr<Tier> lower);
  ~Impl();
  // Takes what was found in the tier below as the sessions (session_store_start.cc).
  void Adopt(std::vector<DiskTier::Found> found);

  // --- Entries (session_store.cc); all but the first two need the mutex. ---
  void EndLease(Entry& entry);
  void EndHold(Entry& entry);
  // The entry of `id`, unless it is none or has expired (then it is dropped).
  Entry* FindLive(std::string_view id, absl::Time now);
  // A new leased entry; ALREADY_EXISTS, or ABORTED while the session of that id comes to be.
  absl::StatusOr<Entry*> Admit(std::string_view id, absl::Time now);
  absl::Status CheckExpected(const Entry& entry, const Expected& expected) const;
  absl::Status Missing(std::string_view id) const;
  absl::Status Busy(std::string_view id) const;
  absl::Status About(std::string_view id, const absl::Status& status) const;

  // The lease of an existing session for a change, once nobody holds it. Takes the mutex, as all
  // below do unless said. Damaged and pinned sessions are refused unless asked for.
  struct ClaimOptions {
    Expected expected;
    bool damaged = false;
    bool pinned = false;
  };
  absl::StatusOr<Claim> Take(std::string_view id, const ClaimOptions& options);
  // A new session's.
  absl::StatusOr<Claim> TakeNew(std::string_view id);

  // --- Records. Those of a snapshot that is claimed or held need no mutex. ---
  absl::StatusOr<SessionRecord> RecordAt(const Kept& kept) const;
  // Of a claimed entry's newest snapshot.
  absl::StatusOr<SessionRecord> HeadRecord(const Entry& entry) const;
  // Of any session.
  absl::StatusOr<SessionRecord> ReadRecord(std::string_view id);

  // --- Changes (publish.cc) ---
  SnapshotKey NextKey() { return next_key++; }
  // Gives no key up to `last` any more. To be called before anything is stored.
  void SkipKeys(SnapshotKey last) { next_key = std::max<SnapshotKey>(next_key, last + 1); }
  Durability DurabilityOf(const SessionRecord& record) const;
  int32_t MaxCheckpointsOf(const SessionRecord& record) const;
  absl::Status CheckSettings(std::optional<Durability> durability,
                             std::optional<int32_t> max_checkpoints) const;
  SessionRecord NewRecord(std::string_view id, absl::Time now) const;
  // Makes `head` the newest snapshot of a claimed entry, with those `checkpoints`; all else that it
  // had goes. Needs the mutex.
  void Publish(Entry& entry, const SessionRecord& record, const Kept& head,
               std::vector<Kept> checkpoints);
  // Erases snapshots of `entry` below, except the newest there while what supersedes it is in memory
  // alone. Needs the mutex.
  void EraseBelow(Entry& entry, std::vector<SnapshotName> names);
  // Puts into the tier below. Needs the mutex not to be held.
  std::vector<absl::Status> PutBelow(std::span<const NewSnapshot> snapshots);
  // The first snapshot of a claimed new entry, or one without a past for an existing one: of `state`,
  // or zeros.
  absl::Status Establish(Entry& entry, const SessionRecord& record,
                         std::span<const std::byte> state);

  // Leaves as many checkpoints as the session keeps, the newest, and notes them in its record.
  void Trim(std::vector<Kept>& checkpoints, SessionRecord& record) const;
  // Makes a snapshot of `record` and the state of `place`, one of a claimed entry's own, its newest.
  // An error is yet to be explained.
  absl::Status PutAgain(Entry& entry, const Kept& place, SessionRecord& record,
                        std::vector<Kept> checkpoints);

  // Needs the mutex, which it lets go while it waits. When there is none and it must not `block`, a
  // room that is not valid.
  absl::StatusOr<Room> TakeRoom(Lock& lock, bool with_state, bool block);
  // These need the mutex; whether anything was dropped.
  bool DropExpired(absl::Time now);
  bool Evict();
  void Drop(Entry& entry);  // As expired or evicted.

  // --- Moves (mover.cc) ---
  // Snapshots of a session that are in memory alone, on their way down.
  struct Descent {
    Entry* entry = nullptr;
    std::vector<Kept> snapshots;  // Oldest first.
    std::vector<Checkpoint> checkpoints;
    std::vector<absl::Status> statuses;  // Of snapshots.

    absl::Status first_error() const;
  };
  Descent PlanDescent(Entry& entry);                  // Needs the mutex.
  void WriteBelow(std::span<Descent> descents);       // Of entries that are claimed or held.
  void NoteBelow(const Descent& descent);             // Needs the mutex.
  absl::Status WriteBelow(Lock& lock, Entry& entry);  // All three, of a claimed entry.
  // Brings the newest snapshot of a claimed entry into memory; false when that would block and must
  // not. `from`: the tier it was in. Needs the mutex, and lets it go.
  absl::StatusOr<bool> BringUp(Lock& lock, Entry& entry, bool block, std::string_view& from);
  // Puts a snapshot of `record` and the state of `place`, which is claimed or held, into memory.
  // CANCELLED when that would block and must not. Needs the mutex, and lets it go.
  absl::Status LoadState(Lock& lock, const Kept& place, const SessionRecord& record,
                         const SnapshotName& name, bool block);
  void LeaveMemory(Entry& entry);  // Needs the mutex.
  absl::Status Drain(Lock& lock, std::vector<Descent> descents);
  bool Short() const;  // Whether memory wants the mover.
  void RunMover();
  void MoveRound(Lock& lock);
  // Whether any session was moved; of those that could not be written, the first error.
  bool MoveSome(Lock& lock, bool clean, absl::Status& error);
  absl::Status AwaitMove(Lock& lock);

  // --- Forks (session_store_forks.cc) ---
  struct Source {
    Hold hold;
    Kept place;
    SessionRecord record;  // As of now, but at that place.

    bool valid() const { return place.key() != 0; }
  };
  // A session's snapshot, held. When that would block and must not, one that is not valid.
  absl::StatusOr<Source> OpenSource(std::string_view id, const SessionStore::Place& place,
                                    const Expected& expected, bool block);
  static const Kept* FindPlace(const Entry& entry, const SessionStore::Place& place);
  // What `then`, an older record of the session whose record is `now`, is when the session is taken
  // back to it.
  static SessionRecord TakenBack(const SessionRecord& now, const SessionRecord& then);
  // What a new session is that goes on from `source`.
  SessionRecord ForkOf(const SessionRecord& source, const CreateOptions& target) const;
  absl::StatusOr<SessionRecord> MakeFork(const Source& source, const CreateOptions& target);
  // Puts `record` with the state of a held snapshot into memory, as the head of a claimed entry that
  // is not settled; false when that would block and must not.
  absl::StatusOr<bool> Seat(Entry& child, const SessionRecord& record, const Kept& place,
                            bool block);

  // --- Import (session_store_transfer.cc) ---
  // The record that an imported snapshot, whose state is at `state_offset`, gives a session.
  absl::StatusOr<SessionRecord> CheckImport(const DecodedSnapshot& snapshot,
                                            size_t state_offset) const;

  // --- Damage (damage.cc) ---
  void Trouble(std::string_view id, const absl::Status& what);
  // What to tell of a tier that failed: trouble, unless it only wants room.
  absl::Status Failed(std::string_view id, const absl::Status& failed);
  // Takes a damaged snapshot out of the tier below, or of memory.
  void PutAside(std::string_view id, const Kept& kept, const absl::Status& what);
  // The record of a snapshot that is claimed or held, once all of it has been found whole.
  absl::StatusOr<SessionRecord> ReadWhole(const Kept& kept) const;
  // Of a claimed entry whose newest snapshot is lost: goes back to the newest whole one. The error
  // that tells so. Needs the mutex, and lets it go.
  absl::Status FallBack(Lock& lock, Entry& entry);
  // That a claimed entry's newest snapshot is whole in some tier; else falls back. Needs the mutex,
  // and lets it go.
  absl::Status CheckHead(Lock& lock, Entry& entry);
  // What to tell after snapshot `key` of session `id` was found to be damaged: falls back where it
  // was the newest one (key 0 is that, too). ABORTED when another copy of it is whole.
  absl::Status Recover(std::string_view id, SnapshotKey key);
  // What to tell of an operation on a session, which nobody has claimed now, that failed on its
  // snapshot `key`.
  absl::Status Explain(std::string_view id, SnapshotKey key, const absl::Status& failed);

  const SessionStoreOptions options;
  const std::unique_ptr<Tier> lower;  // Null: memory alone.
  MemoryTier memory;
  std::atomic<SnapshotKey> next_key = 1;
  std::atomic<int64_t> damaged = 0;

  mutable std::mutex mutex;         // Guards what follows. Taken before any lock of a tier.
  std::condition_variable changed;  // A hold has ended, or a round of the mover.
  SessionIndex index;
  Tombstones tombstones{65536};
  int64_t evictions = 0;
  int64_t expirations = 0;
  int64_t moves_down_pressure = 0;
  int64_t moves_down_drain = 0;
  int64_t moves_up_turn = 0;

  std::condition_variable mover_wanted;
  int waiting = 0;          // Threads that want room.
  bool asked = false;       // One of them has come since the last round began.
  bool moving = false;      // A round is under way.
  uint64_t rounds = 0;      // Done.
  absl::Status move_error;  // Of the last round, if it made no room.
  bool stopping = false;

  // A commit that has been written to memory, and is to be to the tier below.
  struct Commit {
    Claim claim;
    Room room;
    bool replaces = false;  // It has been written over the session's old snapshot in memory.
    SessionRecord record;
    Kept head;
    std::vector<Kept> checkpoints;
    std::span<const std::byte> state;
    Lease::Committed done;
  };
  void WriteCommits(std::vector<Commit> commits);
  void Finish(Commit commit, const absl::Status& written);

  // The threads, where there is a tier below.
  std::unique_ptr<Batcher<SnapshotKey>> eraser;
  std::unique_ptr<Batcher<Commit>> committer;
  std::thread mover;
};

struct SessionStore::Lease::Impl {
  // See Lease::Fetch and TryFetch.
  absl::StatusOr<bool> Fetch(bool block);
  absl::StatusOr<bool> FetchFork(bool block);
  absl::StatusOr<bool> ReserveForCommit(std::unique_lock<std::mutex>& lock, bool block);

  SessionStore::Impl* store = nullptr;
  SessionStore::Impl::Claim claim;
  SessionStore::BeginOptions options;
  SessionRecord record;
  bool is_new = false;
  bool fetched = false;
  bool durable = false;           // The commit must be.
  bool keeps_checkpoint = false;  // Of the old snapshot.
  SessionStore::Impl::Room room;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_STORE_IMPL_H_
