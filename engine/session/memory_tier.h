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

// Snapshots in memory: a slab of equal slots under a byte limit.
//
// A slot is room for the longest head (kMaxSnapshotHeadBytes) and then the state. A snapshot's head
// ends where the state begins, so its bytes lie in the slot in one piece, whatever the record's
// length, and a record is replaced without moving the state:
//
//   | unused, zero | head | state |
//                  `- snapshot ---'
//
// A slot is taken in full from the limit, with an allowance for the index, so that a record that
// grows never needs memory. The slab is mapped at once and touched slot by slot: an idle server
// holds none of it. Pages once touched stay with the process.
//
// Isolation: Erase clears the head, and a slot has no snapshot until a Put has written all of it;
// no byte of an earlier session can be read.
class MemoryTier : public Tier {
 public:
  // What a session costs beyond its slot: its entries in the tier's and the store's index.
  static constexpr int64_t kIndexBytes = 1024;

  // `memory_bytes` / `slot_bytes()` sessions fit. That may be none, also when the system refuses
  // to map so much: see usage().capacity.
  MemoryTier(size_t state_bytes, int64_t memory_bytes);
  ~MemoryTier() override;
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  absl::Status Reserve(std::string_view id) override;
  absl::Status Put(const SessionRecord& record, std::span<const std::byte> state) override;
  absl::Status PutRecord(const SessionRecord& record) override;
  absl::StatusOr<SessionRecord> Record(std::string_view id) const override;
  absl::Status State(std::string_view id, std::span<std::byte> state) const override;
  absl::StatusOr<std::string> Snapshot(std::string_view id) const override;
  void Erase(std::string_view id) override;
  TierUsage usage() const override;

  // What one session takes from the limit.
  int64_t session_bytes() const { return static_cast<int64_t>(slot_bytes_) + kIndexBytes; }

 protected:
  // The bytes of the snapshot of `id` where they are kept; empty when it has none.
  std::span<std::byte> SnapshotInPlace(std::string_view id) const;

 private:
  struct Place {
    std::byte* slot = nullptr;
    size_t head_bytes = 0;  // 0: no snapshot.
  };

  static std::byte* StateOf(const Place& place) { return place.slot + kMaxSnapshotHeadBytes; }

  // These need mutex_.
  absl::StatusOr<Place> Find(std::string_view id) const;
  static absl::StatusOr<SnapshotHead> HeadOf(const Place& place);
  void WriteHead(std::string_view id, std::string_view head);

  const size_t state_bytes_;
  const size_t slot_bytes_;
  const int64_t memory_bytes_;
  size_t capacity_ = 0;
  std::byte* slab_ = nullptr;

  mutable std::mutex mutex_;  // Guards what follows, and the heads in the slots.
  absl::flat_hash_map<std::string, Place> places_;
  std::vector<std::byte*> free_;  // Slots given back, used again before fresh ones.
  size_t fresh_ = 0;              // Slots from here on were never used.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_MEMORY_TIER_H_
