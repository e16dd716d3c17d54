#include "engine/session/memory_tier.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

constexpr size_t kStateBytes = 100;

class OpenMemoryTier : public MemoryTier {
 public:
  using MemoryTier::MemoryTier;
  using MemoryTier::SnapshotInPlace;
};

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(MemoryTierTest, SnapshotsLieInOnePieceAsTheFormatSays) {
  OpenMemoryTier tier(kStateBytes, 1 << 20);
  const std::vector<std::byte> state = SomeState(kStateBytes, 1);
  ASSERT_TRUE(tier.Reserve("a").ok());
  EXPECT_TRUE(tier.SnapshotInPlace("a").empty());
  for (const size_t memory : {3000, 0, 16'384}) {
    SessionRecord record = FullRecord("a");
    record.sampler_memory = std::string(memory, 'm');
    ASSERT_TRUE(tier.Put(record, state).ok());
    const auto bytes = tier.SnapshotInPlace("a");
    EXPECT_EQ(AsText({bytes.begin(), bytes.end()}), EncodeSnapshot(record, state));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    // What the slot has before the snapshot is zero, also where a longer record was.
    const std::byte* slot = bytes.data() + bytes.size() - kStateBytes - kMaxSnapshotHeadBytes;
    EXPECT_TRUE(std::all_of(slot, static_cast<const std::byte*>(bytes.data()),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(MemoryTierTest, EveryFlippedBitIsFound) {
  OpenMemoryTier tier(kStateBytes, 1 << 20);
  ASSERT_TRUE(tier.Reserve("a").ok());
  ASSERT_TRUE(tier.Put(FullRecord("a"), SomeState(kStateBytes, 1)).ok());
  const std::span<std::byte> bytes = tier.SnapshotInPlace("a");
  const size_t head_bytes = bytes.size() - kStateBytes;
  std::vector<std::byte> state(kStateBytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::byte mask{static_cast<unsigned char>(1 << bit % 8)};
    bytes[bit / 8] ^= mask;
    EXPECT_EQ(Reason(tier.State("a", state)), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
    if (bit / 8 < head_bytes) {
      EXPECT_EQ(Reason(tier.Record("a").status()), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
      EXPECT_EQ(Reason(tier.PutRecord(FullRecord("a"))), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
    }
    bytes[bit / 8] ^= mask;
  }
  EXPECT_TRUE(tier.State("a", state).ok());
}

TEST(MemoryTierTest, AllThatASessionTakesComesOutOfTheLimit) {
  for (const int64_t limit : {int64_t{100'000}, int64_t{1} << 20, int64_t{64} << 20}) {
    MemoryTier tier(kStateBytes, limit);
    const TierUsage usage = tier.usage();
    EXPECT_EQ(usage.limit_bytes, limit);
    EXPECT_GE(tier.session_bytes(),
              static_cast<int64_t>(kMaxSnapshotHeadBytes + kStateBytes) + MemoryTier::kIndexBytes);
    EXPECT_LE(usage.capacity * tier.session_bytes(), limit);
    EXPECT_GT((usage.capacity + 1) * tier.session_bytes(), limit);
  }
}

TEST(MemoryTierTest, LessThanOneSlotHoldsNothing) {
  for (const int64_t limit : {int64_t{-5}, int64_t{0}, int64_t{1000}}) {
    MemoryTier tier(kStateBytes, limit);
    EXPECT_EQ(tier.usage().capacity, 0);
    EXPECT_TRUE(absl::IsResourceExhausted(tier.Reserve("a")));
  }
}

TEST(MemoryTierTest, MoreThanTheAddressSpaceHoldsNothing) {
  MemoryTier tier(kStateBytes, int64_t{1} << 62);
  EXPECT_EQ(tier.usage().capacity, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(tier.Reserve("a")));
}

TEST(MemoryTierTest, MemoryIsNotTouchedBeforeItIsUsed) {
  const int64_t before = ResidentBytes();
  MemoryTier tier(1 << 20, int64_t{4} << 30);
  EXPECT_GT(tier.usage().capacity, 3000);
  EXPECT_LT(ResidentBytes() - before, 64 << 20);
}

}  // namespace
}  // namespace fermata
