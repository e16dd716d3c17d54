// States that are altered in memory, behind the store's back.

#include <cstdio>
#include <cstring>
#include <fstream>

#include "engine/base/error.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/test_tier.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

// Alters a byte of each state in this process that is filled with `fill`, wherever it lies; how many
// there were. The address space is walked, for the store lets nobody at its slots: what it is made of
// is not the sanitizers' business.
[[gnu::no_sanitize("address", "thread")]] int AlterStates(uint8_t fill) {
  int altered = 0;
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<std::byte*, std::byte*>> regions;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char mode[5] = {};
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %lu", &begin, &end, mode, &inode) != 4)
      continue;
    const bool is_named =
        line.find('/') != std::string::npos || line.find('[') != std::string::npos;
    if (std::strcmp(mode, "rw-p") != 0 || inode != 0 || is_named) continue;
    if (end - begin < kTestStateBytes || end - begin > (64 << 20)) continue;
    regions.emplace_back(reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end));
  }
  for (auto [at, end] : regions) {
    while (end - at >= kTestStateBytes) {
      while (at != end && *at != std::byte{fill}) ++at;
      std::byte* stop = at;
      while (stop != end && *stop == std::byte{fill}) ++stop;
      if (stop - at >= kTestStateBytes) {
        at[kTestStateBytes / 2] ^= std::byte{1};
        ++altered;
      }
      at = stop;
    }
  }
  return altered;
}

class DamageTest : public testing::Test {
 protected:
  absl::Status Fetch(const std::string& id) {
    absl::StatusOr<SessionStore::Lease> lease = store_->Begin(Existing(id));
    return lease.ok() ? lease->Fetch() : lease.status();
  }

  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ = SmallStore(8, clock_);
};

TEST_F(DamageTest, IsTheDamagedSessionsAlone) {
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 0xA7).ok());
  ASSERT_TRUE(RunTurn(*store_, "sound", 10, 0x11).ok());
  ASSERT_EQ(AlterStates(0xA7), 1);
  EXPECT_EQ(store_->Get("a")->position, 10);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Fetch("a");
    EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
    EXPECT_EQ(DetailsOf(status).metadata["session_id"], "a");
    EXPECT_FALSE(DetailsOf(status).metadata.contains("position"));
  }
  EXPECT_EQ(Reason(store_->Get("a").status()), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(store_->stats().damaged, 1);
  EXPECT_EQ(StateOf(*store_, "sound"), Filled(0x11));
  EXPECT_EQ(store_->List({})->sessions.size(), 1u);
  const SessionStore::Exported sound = store_->Export("sound", {}).value();
  ASSERT_TRUE(store_->Import(sound.head + AsText(sound.state), {.id = "a", .replace = true}).ok());
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0x11));
  EXPECT_TRUE(store_->Delete("a").ok());
}

TEST_F(DamageTest, TheNewestWholeCheckpointIsNext) {
  ASSERT_TRUE(store_->Create({.id = "a", .max_checkpoints = 4}).ok());
  for (const int fill : {0xB1, 0xB2, 0xB3}) ASSERT_TRUE(RunTurn(*store_, "a", fill, fill).ok());
  ASSERT_EQ(AlterStates(0xB3), 1);
  ASSERT_EQ(AlterStates(0xB2), 1);
  const absl::Status status = Fetch("a");
  EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(status).metadata["position"], std::to_string(0xB1));
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0xB1));  // Told once.
  EXPECT_EQ(store_->Get("a")->checkpoints.size(), 1u);
  EXPECT_EQ(store_->stats().damaged, 2);
}

// A clean copy below mends what was altered in memory, and nobody need be told but the log.
TEST_F(DamageTest, TheCopyBelowIsTakenInstead) {
  TestTier::Controls controls;
  auto below = std::make_shared<MemoryTier>(kTestStateBytes, 16 << 20);
  store_ = std::make_unique<SessionStore>(SmallStoreOptions(8, clock_),
                                          std::make_unique<TestTier>(below, controls),
                                          std::vector<DiskTier::Found>());
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 0xC1).ok());
  ASSERT_EQ(AlterStates(0xC1), 1);  // Before it is below.
  ASSERT_TRUE(RunTurn(*store_, "b", 10, 0xC2).ok());
  EXPECT_EQ(Reason(store_->Flush()), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(below->usage().snapshots, 1);  // What is damaged is not made to look whole.
  EXPECT_EQ(Reason(Fetch("a")), "DATA_LOSS SNAPSHOT_DAMAGED");

  ASSERT_EQ(AlterStates(0xC2), 2);  // In both tiers,
  std::vector<SnapshotKey> keys;
  for (SnapshotKey key = 1; key < 100; ++key) {
    if (below->HasState(key)) keys.push_back(key);
  }
  ASSERT_EQ(keys.size(), 1u);
  below->Overwrite(keys[0])[kTestStateBytes / 2] ^= std::byte{1};  // and mended below.
  EXPECT_EQ(StateOf(*store_, "b"), Filled(0xC2));
  EXPECT_EQ(store_->stats().moves_up_turn, 1);
}

}  // namespace
}  // namespace fermata
