#include "engine/session/memory_tier.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "absl/strings/string_view.h"
#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

absl::Status NoSnapshot(std::string_view id) {
  return MakeError(absl::StatusCode::kNotFound, "no such snapshot in memory",
                   {.reason = "SNAPSHOT_NOT_FOUND",
                    .metadata = {{"session_id", std::string(id)}},
                    .retry_after = {}});
}

}  // namespace

MemoryTier::MemoryTier(size_t state_bytes, int64_t memory_bytes)
    : state_bytes_(state_bytes),
      slot_bytes_((kMaxSnapshotHeadBytes + state_bytes + 63) / 64 * 64),
      memory_bytes_(std::max<int64_t>(memory_bytes, 0)) {
  const auto capacity = static_cast<size_t>(memory_bytes_ / session_bytes());
  if (capacity == 0) return;
  void* slab = mmap(nullptr, capacity * slot_bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) return;
  // Fewer faults when a large state is first touched; where it is refused, nothing is lost.
  madvise(slab, capacity * slot_bytes_, MADV_HUGEPAGE);
  slab_ = static_cast<std::byte*>(slab);
  capacity_ = capacity;
}

MemoryTier::~MemoryTier() {
  if (slab_ != nullptr) munmap(slab_, capacity_ * slot_bytes_);
}

absl::Status MemoryTier::Reserve(std::string_view id) {
  const std::lock_guard lock(mutex_);
  if (places_.contains(AbslView(id))) return absl::OkStatus();
  Place place;
  if (!free_.empty()) {
    place.slot = free_.back();
    free_.pop_back();
  } else if (fresh_ < capacity_) {
    place.slot = slab_ + fresh_++ * slot_bytes_;
  } else {
    return MakeError(absl::StatusCode::kResourceExhausted, "the memory of sessions is full",
                     {.reason = "SESSION_MEMORY_EXHAUSTED", .metadata = {}, .retry_after = {}});
  }
  places_.emplace(std::string(id), place);
  return absl::OkStatus();
}

absl::Status MemoryTier::Put(const SessionRecord& record, std::span<const std::byte> state) {
  FERMATA_RETURN_IF_ERROR(CheckRecord(record));
  if (state.size() != state_bytes_) return InvalidField("state", "has another size");
  Place place;
  {
    const std::lock_guard lock(mutex_);
    const auto it = places_.find(AbslView(record.id));
    if (it == places_.end()) return NoSnapshot(record.id);
    place = it->second;
  }
  std::copy(state.begin(), state.end(), StateOf(place));
  const std::string head = EncodeSnapshotHead(record, state.size(), StateChecksum(state));
  const std::lock_guard lock(mutex_);
  WriteHead(record.id, head);
  return absl::OkStatus();
}

absl::Status MemoryTier::PutRecord(const SessionRecord& record) {
  FERMATA_RETURN_IF_ERROR(CheckRecord(record));
  const std::lock_guard lock(mutex_);
  FERMATA_ASSIGN_OR_RETURN(const Place place, Find(record.id));
  FERMATA_ASSIGN_OR_RETURN(const SnapshotHead old, HeadOf(place));
  WriteHead(record.id, EncodeSnapshotHead(record, old.state_bytes, old.state_checksum));
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> MemoryTier::Record(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  FERMATA_ASSIGN_OR_RETURN(const Place place, Find(id));
  FERMATA_ASSIGN_OR_RETURN(SnapshotHead head, HeadOf(place));
  return std::move(head.record);
}

absl::Status MemoryTier::State(std::string_view id, std::span<std::byte> state) const {
  if (state.size() != state_bytes_) return InvalidField("state", "has another size");
  Place place;
  SnapshotHead head;
  {
    const std::lock_guard lock(mutex_);
    FERMATA_ASSIGN_OR_RETURN(place, Find(id));
    FERMATA_ASSIGN_OR_RETURN(head, HeadOf(place));
  }
  std::copy_n(StateOf(place), state.size(), state.begin());
  // Of the copy, which is what the caller goes on with.
  if (StateChecksum(state) != head.state_checksum) return DamagedState(head.size);
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryTier::Snapshot(std::string_view id) const {
  const std::span<const std::byte> bytes = SnapshotInPlace(id);
  if (bytes.empty()) return NoSnapshot(id);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void MemoryTier::Erase(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto it = places_.find(AbslView(id));
  if (it == places_.end()) return;
  const Place& place = it->second;
  std::fill_n(StateOf(place) - place.head_bytes, place.head_bytes, std::byte{0});
  free_.push_back(place.slot);
  places_.erase(it);
}

TierUsage MemoryTier::usage() const {
  const std::lock_guard lock(mutex_);
  const auto snapshots = static_cast<int64_t>(places_.size());
  return {.snapshots = snapshots,
          .bytes = snapshots * session_bytes(),
          .limit_bytes = memory_bytes_,
          .capacity = static_cast<int64_t>(capacity_)};
}

std::span<std::byte> MemoryTier::SnapshotInPlace(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Place> place = Find(id);
  if (!place.ok()) return {};
  return {StateOf(*place) - place->head_bytes, place->head_bytes + state_bytes_};
}

absl::StatusOr<MemoryTier::Place> MemoryTier::Find(std::string_view id) const {
  const auto it = places_.find(AbslView(id));
  if (it == places_.end() || it->second.head_bytes == 0) return NoSnapshot(id);
  return it->second;
}

absl::StatusOr<SnapshotHead> MemoryTier::HeadOf(const Place& place) {
  return DecodeSnapshotHead(
      {reinterpret_cast<const char*>(StateOf(place) - place.head_bytes), place.head_bytes});
}

void MemoryTier::WriteHead(std::string_view id, std::string_view head) {
  assert(head.size() <= kMaxSnapshotHeadBytes);
  Place& place = places_.find(AbslView(id))->second;
  if (place.head_bytes > head.size()) {
    std::memset(StateOf(place) - place.head_bytes, 0, place.head_bytes - head.size());
  }
  std::memcpy(StateOf(place) - head.size(), head.data(), head.size());
  place.head_bytes = head.size();
}

}  // namespace fermata
