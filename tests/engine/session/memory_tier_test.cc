#include "engine/session/memory_tier.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "gmock/gmock.h"
#include "tests/engine/session/records.h"
#include "tests/settings.h"

namespace fermata {
namespace {

constexpr size_t kStateBytes = 100'000;

class OpenMemoryTier : public MemoryTier {
 public:
  using MemoryTier::HeadInPlace;
  using MemoryTier::MemoryTier;
  using MemoryTier::StateInPlace;
};

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

absl::Status PutOne(Tier& tier, const SnapshotName& name, const SessionRecord& record,
                    const std::vector<std::byte>& state) {
  const NewSnapshot snapshot{name, &record, state};
  return tier.Put({&snapshot, 1}).front();
}

void Erase(Tier& tier, SnapshotKey key) { EXPECT_TRUE(tier.Erase({&key, 1}).ok()); }

TEST(MemoryTierTest, HeadAndStateAreThoseOfTheFormat) {
  OpenMemoryTier tier(kStateBytes, 1 << 20);
  const std::vector<std::byte> state = SomeState(kStateBytes, 1);
  for (const SnapshotKey key : {1, 2, 3}) {
    SessionRecord record = FullRecord("a");
    record.checkpoints.clear();
    record.sampler_memory = std::string(key * 3000, 'm');
    ASSERT_TRUE(PutOne(tier, {key, 1}, record, state).ok());
    const auto head = tier.HeadInPlace(key);
    EXPECT_EQ(std::string(head.begin(), head.end()),
              EncodeSnapshotHead({key, 1}, record,
                                 {.bytes = kStateBytes, .checksum = StateChecksum(state)}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tier.StateInPlace(key).data()) % 64, 0u);
  }
}

TEST(MemoryTierTest, EveryFlippedBitIsFound) {
  constexpr size_t kFewBytes = 100;
  OpenMemoryTier tier(kFewBytes, 1 << 20);
  ASSERT_TRUE(PutOne(tier, {9, 9}, FullRecord("a"), SomeState(kFewBytes, 1)).ok());
  std::vector<std::byte> state(kFewBytes);
  const auto is_damaged = [&] {
    return Reason(tier.State(9, state)) == "DATA_LOSS SNAPSHOT_DAMAGED" &&
           Reason(tier.View(9).status()) == "DATA_LOSS SNAPSHOT_DAMAGED";
  };
  const auto head = tier.HeadInPlace(9);
  for (size_t bit = 0; bit < 8 * head.size(); ++bit) {
    head[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(is_damaged()) << bit;
    EXPECT_EQ(Reason(tier.Record(9).status()), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
    head[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  const auto kept = tier.StateInPlace(9);
  for (size_t bit = 0; bit < 8 * kept.size(); ++bit) {
    const std::byte mask{static_cast<unsigned char>(1 << bit % 8)};
    kept[bit / 8] ^= mask;
    EXPECT_TRUE(is_damaged()) << bit;
    kept[bit / 8] ^= mask;
  }
  EXPECT_TRUE(tier.State(9, state).ok());
}

TEST(MemoryTierTest, SnapshotsOfOneStateTakeOneSlot) {
  MemoryTier tier(kStateBytes, 1 << 20);
  const SessionRecord record = FullRecord("a");
  const std::vector<std::byte> state = SomeState(kStateBytes, 1);
  ASSERT_TRUE(PutOne(tier, {20, 20}, record, state).ok());
  const int64_t one = tier.usage().bytes;
  for (SnapshotKey key = 21; key < 30; ++key) {
    ASSERT_TRUE(PutOne(tier, {key, 20}, record, {}).ok());
  }
  EXPECT_EQ(tier.usage().snapshots, 10);
  EXPECT_EQ(tier.usage().states, 1);
  EXPECT_LT(tier.usage().bytes, one + static_cast<int64_t>(kStateBytes));
  EXPECT_FALSE(tier.Isolate(25));
  for (SnapshotKey key = 20; key < 29; ++key) Erase(tier, key);
  std::vector<std::byte> read(kStateBytes);
  ASSERT_TRUE(tier.State(29, read).ok());
  EXPECT_EQ(read, state);
  Erase(tier, 29);
  EXPECT_FALSE(tier.HasState(20));
  EXPECT_EQ(tier.usage().bytes, 0);
}

TEST(MemoryTierTest, WhatIsSetAsideIsTakenFromTheLimit) {
  constexpr int64_t kEach = 100'032 + MemoryTier::kHeadRoom;  // The slot, rounded to 64.
  MemoryTier tier(kStateBytes, 3 * kEach);
  EXPECT_EQ(tier.capacity(), 3);
  std::vector<MemoryTier::Room> rooms;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(tier.HasRoomFor(3 - i));
    EXPECT_FALSE(tier.HasRoomFor(4 - i));
    rooms.push_back(tier.Reserve(true).value());
    EXPECT_EQ(rooms.back().state().size(), kStateBytes);
  }
  EXPECT_EQ(tier.usage().bytes, tier.usage().limit_bytes);
  for (const bool with_state : {true, false}) {
    EXPECT_EQ(Reason(tier.Reserve(with_state).status()),
              "RESOURCE_EXHAUSTED SESSION_MEMORY_EXHAUSTED");
  }
  // All that was set aside can be used, by the longest of records too.
  SessionRecord record = FullRecord("a");
  record.sampler_memory = std::string(kMaxSamplerMemoryBytes, 'm');
  for (SnapshotKey key = 50; key < 53; ++key) {
    const std::vector<std::byte> state = SomeState(kStateBytes, key);
    std::copy(state.begin(), state.end(), rooms.back().state().begin());
    tier.Put({key, key}, record, StateChecksum(state), std::move(rooms.back()));
    rooms.pop_back();
    EXPECT_LE(tier.usage().bytes, tier.usage().limit_bytes);
  }
  std::vector<std::byte> read(kStateBytes);
  for (SnapshotKey key = 50; key < 53; ++key) {
    ASSERT_TRUE(tier.State(key, read).ok());
    EXPECT_EQ(read, SomeState(kStateBytes, key));
  }
  for (SnapshotKey key = 50; key < 53; ++key) Erase(tier, key);
  { MemoryTier::Room unused = tier.Reserve(true).value(); }
  EXPECT_EQ(tier.usage().bytes, 0);
}

TEST(MemoryTierTest, AStateIsWrittenOverForItsSuccessor) {
  MemoryTier tier(kStateBytes, 1 << 20);
  ASSERT_TRUE(PutOne(tier, {20, 20}, FullRecord("old"), SomeState(kStateBytes, 1)).ok());
  const int64_t bytes = tier.usage().bytes;
  const std::vector<std::byte> next = SomeState(kStateBytes, 2);
  ASSERT_TRUE(tier.Isolate(20));
  EXPECT_FALSE(tier.HasState(20));  // Nobody else shall have it.
  const auto slot = tier.Overwrite(20);
  std::copy(next.begin(), next.end(), slot.begin());
  EXPECT_EQ(tier.Record(20)->id, "old");
  tier.Replace(20, 22, FullRecord("new"), StateChecksum(next), tier.Reserve(false).value());
  EXPECT_TRUE(absl::IsNotFound(tier.Record(20).status()));
  EXPECT_FALSE(tier.HasState(20));
  EXPECT_EQ(tier.Record(22)->id, "new");
  EXPECT_EQ(tier.View(22)->data(), slot.data());
  std::vector<std::byte> read(kStateBytes);
  ASSERT_TRUE(tier.State(22, read).ok());
  EXPECT_EQ(read, next);
  EXPECT_EQ(tier.usage().bytes, bytes);
  EXPECT_EQ(tier.usage().states, 1);
}

TEST(MemoryTierTest, AnIsolatedStateIsSharedByWhoNamesItsSnapshot) {
  MemoryTier tier(kStateBytes, 1 << 20);
  const std::vector<std::byte> state = SomeState(kStateBytes, 1);
  ASSERT_TRUE(PutOne(tier, {20, 20}, FullRecord("a"), state).ok());
  ASSERT_TRUE(tier.Isolate(20));
  ASSERT_TRUE(tier.Isolate(20));
  tier.ShareWith(20, {21, 20}, FullRecord("b"), tier.Reserve(false).value());
  EXPECT_FALSE(tier.Isolate(20));
  // The same snapshot, loaded again and isolated beside it.
  Erase(tier, 20);
  ASSERT_TRUE(PutOne(tier, {20, 20}, FullRecord("a"), state).ok());
  ASSERT_TRUE(tier.Isolate(20));
  EXPECT_EQ(tier.usage().states, 2);
  Erase(tier, 20);
  std::vector<std::byte> read(kStateBytes);
  ASSERT_TRUE(tier.State(21, read).ok());
  EXPECT_EQ(read, state);
  Erase(tier, 21);
  EXPECT_EQ(tier.usage().bytes, 0);
}

TEST(MemoryTierTest, OverheadIsUnderOnePercent) {
  constexpr size_t kState = 400'000;
  MemoryTier tier(kState, 1 << 20);
  SessionRecord record = FullRecord("s-0123456789abcdef0123456789abcdef");
  record.sampler_memory = std::string(4 * 256, 'm');
  ASSERT_TRUE(PutOne(tier, {9, 9}, record, SomeState(kState, 1)).ok());
  EXPECT_LT(tier.usage().bytes, static_cast<int64_t>(kState) * 101 / 100);
}

TEST(MemoryTierTest, LessThanOneSlotHoldsNothing) {
  for (const int64_t limit : {int64_t{-5}, int64_t{0}, int64_t{1000}, int64_t{100'000}}) {
    MemoryTier tier(kStateBytes, limit);
    EXPECT_EQ(tier.capacity(), 0);
    EXPECT_TRUE(absl::IsResourceExhausted(tier.Reserve(true).status()));
  }
}

TEST(MemoryTierTest, MoreThanTheAddressSpaceHoldsNothing) {
  MemoryTier tier(kStateBytes, int64_t{1} << 62);
  EXPECT_EQ(tier.capacity(), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(tier.Reserve(true).status()));
}

TEST(MemoryTierTest, MemoryIsNotTouchedBeforeItIsUsed) {
  const int64_t before = ResidentBytes();
  MemoryTier tier(1 << 20, int64_t{4} << 30);
  EXPECT_GT(tier.capacity(), 3000);
  EXPECT_LT(ResidentBytes() - before, 64 << 20);
}

// The memory of states that have gone is there for heads, without the process growing.
TEST(MemoryTierTest, FreeSlotsAreGivenBackForHeads) {
  if (UnderSanitizer()) {
    GTEST_SKIP() << "what a sanitizer remembers of memory is resident, too";
  }
  constexpr size_t kState = 8 << 20;
  constexpr int64_t kLimit = 96 << 20;
  MemoryTier tier(kState, kLimit);
  const SessionRecord record = FullRecord("a");
  const std::vector<std::byte> state = SomeState(kState, 1);
  const int64_t before = ResidentBytes();
  for (SnapshotKey key = 100; key < 111; ++key) {
    ASSERT_TRUE(PutOne(tier, {key, key}, record, state).ok());
  }
  for (SnapshotKey key = 101; key < 111; ++key) Erase(tier, key);
  SessionRecord long_record = FullRecord("a");
  long_record.sampler_memory = std::string(kMaxSamplerMemoryBytes, 'm');
  for (SnapshotKey key = 200; key < 4000; ++key) {
    ASSERT_TRUE(PutOne(tier, {key, 100}, long_record, {}).ok());
  }
  EXPECT_LT(ResidentBytes() - before, kLimit * 5 / 4);
}

}  // namespace
}  // namespace fermata
