#include "engine/session/memory_tier.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// The marks of isolated states begin here: no state has such a name.
constexpr SnapshotKey kIsolated = SnapshotKey{1} << 63;

absl::Status NoSnapshot() {
  return MakeError(absl::StatusCode::kNotFound, "no such snapshot in memory",
                   {.reason = "SNAPSHOT_NOT_FOUND", .metadata = {}, .retry_after = {}});
}

}  // namespace

MemoryTier::MemoryTier(size_t state_bytes, int64_t memory_bytes)
    : state_bytes_(state_bytes),
      slot_bytes_(std::max<size_t>((state_bytes + 63) / 64 * 64, 64)),
      limit_bytes_(std::max<int64_t>(memory_bytes, 0)) {
  const int64_t capacity = limit_bytes_ / RoomBytes(/*with_state=*/true);
  const auto slots = static_cast<size_t>(limit_bytes_) / slot_bytes_;
  if (capacity == 0) return;
  void* slab = mmap(nullptr, slots * slot_bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) return;
  // Fewer faults when a large state is first touched; where it is refused, nothing is lost.
  madvise(slab, slots * slot_bytes_, MADV_HUGEPAGE);
  slab_ = static_cast<std::byte*>(slab);
  slab_slots_ = slots;
  capacity_ = capacity;
}

MemoryTier::~MemoryTier() {
  if (slab_ != nullptr) munmap(slab_, slab_slots_ * slot_bytes_);
}

std::vector<absl::Status> MemoryTier::Put(std::span<const NewSnapshot> snapshots) {
  std::vector<absl::Status> statuses;
  for (const NewSnapshot& snapshot : snapshots) {
    statuses.push_back([&]() -> absl::Status {
      FERMATA_RETURN_IF_ERROR(CheckRecord(*snapshot.record));
      const bool known = HasState(snapshot.name.state);
      if (!(known && snapshot.state.empty()) && snapshot.state.size() != state_bytes_) {
        return InvalidField("state", "has another size");
      }
      FERMATA_ASSIGN_OR_RETURN(Room room, Reserve(!known));
      if (known) {
        if (Share(snapshot.name, *snapshot.record, std::move(room))) return absl::OkStatus();
        return InvalidField("state", "has gone meanwhile");
      }
      std::copy(snapshot.state.begin(), snapshot.state.end(), room.state().begin());
      Put(snapshot.name, *snapshot.record, StateChecksum(room.state()), std::move(room));
      return absl::OkStatus();
    }());
  }
  return statuses;
}

absl::StatusOr<SessionRecord> MemoryTier::Record(SnapshotKey key) const {
  SnapshotHead head;
  FERMATA_RETURN_IF_ERROR(Find(key, head).status());
  return std::move(head.record);
}

absl::Status MemoryTier::State(SnapshotKey key, std::span<std::byte> state) const {
  if (state.size() != state_bytes_) return InvalidField("state", "has another size");
  SnapshotHead head;
  FERMATA_ASSIGN_OR_RETURN(const auto kept, Find(key, head));
  std::copy(kept.begin(), kept.end(), state.begin());
  // Of the copy, which is what the caller goes on with.
  if (StateChecksum(state) != head.state.checksum) return DamagedState(head.size);
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> MemoryTier::View(SnapshotKey key) const {
  SnapshotHead head;
  FERMATA_ASSIGN_OR_RETURN(const auto kept, Find(key, head));
  if (StateChecksum(kept) != head.state.checksum) return DamagedState(head.size);
  return kept;
}

bool MemoryTier::HasState(SnapshotKey state) const {
  const std::lock_guard lock(mutex_);
  return states_.contains(state);
}

bool MemoryTier::Isolate(SnapshotKey key) {
  const std::lock_guard lock(mutex_);
  Snapshot& snapshot = snapshots_.at(key);
  const auto it = states_.find(snapshot.state);
  if (it->second.snapshots > 1) return false;
  if (snapshot.state >= kIsolated) return true;
  const SharedState state = it->second;
  states_.erase(it);
  snapshot.state = kIsolated + ++isolated_;
  states_[snapshot.state] = state;
  return true;
}

bool MemoryTier::Has(SnapshotKey key) const {
  const std::lock_guard lock(mutex_);
  return snapshots_.contains(key);
}

absl::Status MemoryTier::Erase(std::span<const SnapshotKey> keys) {
  const std::lock_guard lock(mutex_);
  for (const SnapshotKey key : keys) EraseOne(key);
  return absl::OkStatus();
}

TierUsage MemoryTier::usage() const {
  const std::lock_guard lock(mutex_);
  return {.snapshots = static_cast<int64_t>(snapshots_.size()),
          .states = static_cast<int64_t>(states_.size()),
          .bytes = bytes_,
          .limit_bytes = limit_bytes_};
}

bool MemoryTier::HasRoomFor(int64_t snapshots) const {
  const std::lock_guard lock(mutex_);
  return bytes_ + snapshots * RoomBytes(/*with_state=*/true) <= limit_bytes_;
}

absl::StatusOr<MemoryTier::Room> MemoryTier::Reserve(bool with_state) {
  const std::lock_guard lock(mutex_);
  if (slab_ == nullptr || bytes_ + RoomBytes(with_state) > limit_bytes_) {
    return Full();
  }
  Room room;
  room.tier_ = this;
  bytes_ += RoomBytes(with_state);
  if (with_state) room.slot_ = TakeSlot();
  CoolSlots();
  return room;
}

absl::Status MemoryTier::Full() {
  return MakeError(absl::StatusCode::kResourceExhausted, "the memory of sessions is full",
                   {.reason = "SESSION_MEMORY_EXHAUSTED", .metadata = {}, .retry_after = {}});
}

void MemoryTier::Put(const SnapshotName& name, const SessionRecord& record, uint64_t checksum,
                     Room&& room) {
  std::string head = Head(name, record, checksum);
  const std::lock_guard lock(mutex_);
  if (!states_.contains(name.state)) {
    states_[name.state] = {.slot = std::exchange(room.slot_, nullptr), .checksum = checksum};
  }
  Add(name.key, name.state, std::move(head), room);
}

bool MemoryTier::Share(const SnapshotName& name, const SessionRecord& record, Room&& room) {
  const std::lock_guard lock(mutex_);
  const auto it = states_.find(name.state);
  if (it == states_.end()) return false;
  Add(name.key, name.state, Head(name, record, it->second.checksum), room);
  return true;
}

void MemoryTier::ShareWith(SnapshotKey like, const SnapshotName& name, const SessionRecord& record,
                           Room&& room) {
  const std::lock_guard lock(mutex_);
  const SnapshotKey state = snapshots_.at(like).state;
  Add(name.key, state, Head(name, record, states_.at(state).checksum), room);
}

// What is given back of a room no longer has the slot in it, if that has been taken.
void MemoryTier::Add(SnapshotKey key, SnapshotKey state, std::string head, Room& room) {
  ++states_.at(state).snapshots;
  bytes_ += CostOf(head);
  snapshots_[key] = {.state = state, .head = std::move(head)};
  GiveBack(room);
}

std::span<std::byte> MemoryTier::Overwrite(SnapshotKey key) {
  const std::lock_guard lock(mutex_);
  const SharedState& state = states_.at(snapshots_.at(key).state);
  assert(state.snapshots == 1);
  return {state.slot, state_bytes_};
}

void MemoryTier::Replace(SnapshotKey old, SnapshotKey key, const SessionRecord& record,
                         uint64_t checksum, Room&& room) {
  std::string head = Head({key, key}, record, checksum);
  const std::lock_guard lock(mutex_);
  const auto it = snapshots_.find(old);
  const auto state = states_.find(it->second.state);
  std::byte* slot = state->second.slot;
  bytes_ -= CostOf(it->second.head);
  states_.erase(state);
  snapshots_.erase(it);
  states_[key] = {.slot = slot, .checksum = checksum};
  Add(key, key, std::move(head), room);
}

std::span<char> MemoryTier::HeadInPlace(SnapshotKey key) {
  const std::lock_guard lock(mutex_);
  return snapshots_.at(key).head;
}

std::span<std::byte> MemoryTier::StateInPlace(SnapshotKey key) {
  const std::lock_guard lock(mutex_);
  return {states_.at(snapshots_.at(key).state).slot, state_bytes_};
}

std::byte* MemoryTier::TakeSlot() {
  for (std::vector<std::byte*>* free : {&warm_, &cold_}) {
    if (free->empty()) continue;
    std::byte* slot = free->back();
    free->pop_back();
    return slot;
  }
  assert(fresh_ < slab_slots_);
  return slab_ + fresh_++ * slot_bytes_;
}

// Gives pages of free slots back as far as what is in use needs their bytes.
void MemoryTier::CoolSlots() {
  const auto slot_bytes = static_cast<int64_t>(slot_bytes_);
  while (!warm_.empty() &&
         bytes_ + static_cast<int64_t>(warm_.size()) * slot_bytes > limit_bytes_) {
    std::byte* slot = warm_.back();
    warm_.pop_back();
    cold_.push_back(slot);
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(slot) + page - 1) / page * page;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(slot) + slot_bytes_) / page * page;
    if (begin < end)
      madvise(slot + (begin - reinterpret_cast<uintptr_t>(slot)), end - begin, MADV_DONTNEED);
  }
}

void MemoryTier::EraseOne(SnapshotKey key) {
  const auto it = snapshots_.find(key);
  if (it == snapshots_.end()) return;
  const auto state = states_.find(it->second.state);
  bytes_ -= CostOf(it->second.head);
  snapshots_.erase(it);
  if (--state->second.snapshots > 0) return;
  warm_.push_back(state->second.slot);
  bytes_ -= static_cast<int64_t>(slot_bytes_);
  states_.erase(state);
}

absl::StatusOr<std::span<const std::byte>> MemoryTier::Find(SnapshotKey key,
                                                            SnapshotHead& head) const {
  const std::lock_guard lock(mutex_);
  const auto it = snapshots_.find(key);
  if (it == snapshots_.end()) return NoSnapshot();
  FERMATA_ASSIGN_OR_RETURN(head, DecodeSnapshotHead(it->second.head));
  return std::span<const std::byte>(states_.at(it->second.state).slot, state_bytes_);
}

std::string MemoryTier::Head(const SnapshotName& name, const SessionRecord& record,
                             uint64_t checksum) const {
  return EncodeSnapshotHead(name, record, {.bytes = state_bytes_, .checksum = checksum});
}

MemoryTier::Room::Room(Room&& other) noexcept
    : tier_(std::exchange(other.tier_, nullptr)), slot_(std::exchange(other.slot_, nullptr)) {}

MemoryTier::Room& MemoryTier::Room::operator=(Room&& other) noexcept {
  std::swap(tier_, other.tier_);
  std::swap(slot_, other.slot_);
  return *this;
}

MemoryTier::Room::~Room() {
  if (tier_ == nullptr) return;
  const std::lock_guard lock(tier_->mutex_);
  tier_->GiveBack(*this);
}

std::span<std::byte> MemoryTier::Room::state() const {
  if (slot_ == nullptr) return {};
  return {slot_, tier_->state_bytes_};
}

void MemoryTier::GiveBack(Room& room) {
  bytes_ -= RoomBytes(room.slot_ != nullptr);
  if (room.slot_ != nullptr) warm_.push_back(std::exchange(room.slot_, nullptr));
  room.tier_ = nullptr;
}

}  // namespace fermata
