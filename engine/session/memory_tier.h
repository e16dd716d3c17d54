#ifndef FERMATA_ENGINE_SESSION_MEMORY_TIER_H_
#define FERMATA_ENGINE_SESSION_MEMORY_TIER_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/session/tier.h"

namespace fermata {

// Snapshots in memory, under a byte limit: states in a slab of equal slots, heads apart at their
// true length, so that small records cost little and snapshots of one state share its slot.
//
// Beyond what every tier does, room can be set aside, so that a later Put can not fail, and a state
// that one snapshot alone has can be written over for its successor.
//
// The slab is mapped at once and touched slot by slot: an idle server holds none of it. Slots that
// are free are given back to the system where heads need their bytes.
//
// Isolation: a slot belongs to no snapshot until all of it has been written.
class MemoryTier : public Tier {
 public:
  // What a snapshot costs beyond its head and slot: its entries in the tier's and the store's index.
  static constexpr int64_t kIndexBytes = 512;
  // What is set aside for a head, whose length is not known yet.
  static constexpr int64_t kHeadRoom = static_cast<int64_t>(kMaxSnapshotHeadBytes) + kIndexBytes;

  // When `memory_bytes` hold no state, or the system refuses to map so much, capacity() is 0 and
  // everything fails for want of room.
  MemoryTier(size_t state_bytes, int64_t memory_bytes);
  ~MemoryTier() override;
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  std::string_view name() const override { return "memory"; }
  std::vector<absl::Status> Put(std::span<const NewSnapshot> snapshots) override;
  absl::StatusOr<SessionRecord> Record(SnapshotKey key) const override;
  absl::Status State(SnapshotKey key, std::span<std::byte> state) const override;
  bool HasState(SnapshotKey state) const override;
  absl::Status Erase(std::span<const SnapshotKey> keys) override;
  TierUsage usage() const override;

  // Room for one snapshot: for a head of any length and, if asked for, a state. Given back when it
  // is destroyed unused. Movable; must not outlive the tier.
  class Room {
   public:
    Room() = default;
    Room(Room&& other) noexcept;
    Room& operator=(Room&& other) noexcept;
    ~Room();

    bool valid() const { return tier_ != nullptr; }
    // To be filled; empty where no state was asked for.
    std::span<std::byte> state() const;

   private:
    friend class MemoryTier;
    MemoryTier* tier_ = nullptr;
    std::byte* slot_ = nullptr;
  };
  // Full() when there is none.
  absl::StatusOr<Room> Reserve(bool with_state);
  // RESOURCE_EXHAUSTED with reason SESSION_MEMORY_EXHAUSTED.
  static absl::Status Full();

  // Puts a snapshot into its room, whose state() has been filled and has this StateChecksum; where the
  // tier has the state already, it is shared. Can not fail, as the next one. `record` must pass
  // CheckRecord.
  void Put(const SnapshotName& name, const SessionRecord& record, uint64_t checksum, Room&& room);
  // Puts a snapshot into a room without a state: of the state that snapshot `like` has,
  void ShareWith(SnapshotKey like, const SnapshotName& name, const SessionRecord& record,
                 Room&& room);
  // or of the state name.state, if the tier has that; else false, and the room is left.
  bool Share(const SnapshotName& name, const SessionRecord& record, Room&& room);

  // That the state of snapshot `key` is its alone, and stays so until ShareWith: who looks for it by
  // its name does not find it any more. False when others have it.
  bool Isolate(SnapshotKey key);
  // The state of snapshot `key`, which has been isolated, to be written over. Until Replace, the
  // snapshot's record can still be read.
  std::span<std::byte> Overwrite(SnapshotKey key);
  // Puts a snapshot, of the state that was written over that of `old`, in the place of `old`, and into
  // a room without a state. Can not fail.
  void Replace(SnapshotKey old, SnapshotKey key, const SessionRecord& record, uint64_t checksum,
               Room&& room);

  bool Has(SnapshotKey key) const;
  // The state of `key` where it lies, until the snapshot is erased, after checking that it is what
  // was put. Errors as State.
  absl::StatusOr<std::span<const std::byte>> View(SnapshotKey key) const;

  // Snapshots with a state of their own that fit, whatever their records hold.
  int64_t capacity() const { return capacity_; }
  // That so many rooms with a state could be had.
  bool HasRoomFor(int64_t snapshots) const;

 protected:
  // The parts of snapshot `key` as they lie in memory; it must be there.
  std::span<char> HeadInPlace(SnapshotKey key);
  std::span<std::byte> StateInPlace(SnapshotKey key);

 private:
  struct Snapshot {
    SnapshotKey state = 0;  // In states_.
    std::string head;
  };
  struct SharedState {
    std::byte* slot = nullptr;
    uint64_t checksum = 0;
    int64_t snapshots = 0;  // That have it.
  };

  static int64_t CostOf(std::string_view head) {
    return static_cast<int64_t>(head.size()) + kIndexBytes;
  }
  int64_t RoomBytes(bool with_state) const {
    return kHeadRoom + (with_state ? static_cast<int64_t>(slot_bytes_) : 0);
  }

  // These need mutex_.
  std::byte* TakeSlot();
  void CoolSlots();
  void EraseOne(SnapshotKey key);
  void Add(SnapshotKey key, SnapshotKey state, std::string head, Room& room);
  void GiveBack(Room& room);

  absl::StatusOr<std::span<const std::byte>> Find(SnapshotKey key, SnapshotHead& head) const;
  std::string Head(const SnapshotName& name, const SessionRecord& record, uint64_t checksum) const;

  const size_t state_bytes_;
  const size_t slot_bytes_;
  const int64_t limit_bytes_;
  int64_t capacity_ = 0;
  size_t slab_slots_ = 0;
  std::byte* slab_ = nullptr;

  mutable std::mutex mutex_;  // Guards what follows; not the states.
  absl::flat_hash_map<SnapshotKey, Snapshot> snapshots_;
  absl::flat_hash_map<SnapshotKey, SharedState> states_;  // By name, or a mark of their own.
  uint64_t isolated_ = 0;                                 // Marks given so far.
  int64_t bytes_ = 0;                                     // In use or set aside.
  std::vector<std::byte*> warm_;  // Free slots whose pages the system has given us.
  std::vector<std::byte*> cold_;  // Free slots whose pages it has back.
  size_t fresh_ = 0;              // Slots from here on were never used.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_MEMORY_TIER_H_
