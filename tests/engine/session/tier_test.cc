// What every tier promises.

#include "engine/session/tier.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "engine/session/disk_tier.h"
#include "engine/session/memory_tier.h"
#include "gmock/gmock.h"
#include "tests/engine/session/disk_testing.h"

namespace fermata {
namespace {

constexpr size_t kStateBytes = kDiskStateBytes;  // Not a multiple of anything.

// A tier, and where it lives.
struct Made {
  std::unique_ptr<DiskDir> directory;
  std::unique_ptr<Tier> tier;
};

// Every tier of the service, made so that a few snapshots fit and a hundred do not.
struct TierCase {
  const char* name;
  std::function<Made()> make;
};

const TierCase kTiers[] = {
    {"memory",
     [] {
       return Made{.directory = nullptr,
                   .tier = std::make_unique<MemoryTier>(
                       kStateBytes, /*memory_bytes=*/20 * MemoryTier::kHeadRoom)};
     }},
    {"disk",
     [] {
       auto directory = std::make_unique<DiskDir>();
       DiskTier::Options options = DiskOptions(*directory);
       options.quota_bytes = 20 * 4096;
       return Made{.directory = std::move(directory), .tier = MustOpen(options).tier};
     }},
};

class TierTest : public testing::TestWithParam<TierCase> {
 protected:
  TierTest() : made_(GetParam().make()), tier_(*made_.tier) {}

  void MustPut(const std::vector<DiskSnapshot>& snapshots) {
    for (const absl::Status& status : PutAll(tier_, snapshots)) EXPECT_TRUE(status.ok()) << status;
  }
  absl::Status Put(const DiskSnapshot& snapshot) { return PutAll(tier_, {snapshot})[0]; }
  void MustErase(const std::vector<SnapshotKey>& keys) {
    const absl::Status erased = tier_.Erase(keys);
    EXPECT_TRUE(erased.ok()) << erased;
  }

  const Made made_;
  Tier& tier_;
};

TEST_P(TierTest, GivesBackWhatWasPut) {
  EXPECT_EQ(tier_.name(), GetParam().name);
  DiskSnapshot bare = SomeSnapshot({.key = 2, .state = 2}, "b");
  bare.record = {};
  bare.record.id = "b";
  bare.record.model_fingerprint = kDiskModel;
  DiskSnapshot longest = SomeSnapshot({.key = 3, .state = 3}, "c");
  longest.record.sampler_memory.assign(kMaxSamplerMemoryBytes, 'm');
  longest.record.checkpoints = FullRecord("c").checkpoints;
  const std::vector<DiskSnapshot> all = {SomeSnapshot({.key = 1, .state = 1}, "a"), bare, longest};
  MustPut(all);
  for (const DiskSnapshot& snapshot : all) ExpectKept(tier_, snapshot);
  EXPECT_EQ(tier_.usage().snapshots, 3);
  EXPECT_EQ(tier_.usage().states, 3);
}

TEST_P(TierTest, WhatIsNotThereIsNotFound) {
  ExpectNone(tier_, 1);
  EXPECT_FALSE(tier_.HasState(1));
  MustErase({1});
  MustPut({SomeSnapshot({.key = 1, .state = 1}, "a")});
  ExpectNone(tier_, 2);
  MustErase({2, 1, 1});
  ExpectNone(tier_, 1);
  EXPECT_FALSE(tier_.HasState(1));
  EXPECT_EQ(tier_.usage().snapshots, 0);
  EXPECT_EQ(tier_.usage().states, 0);
  EXPECT_EQ(tier_.usage().bytes, 0);
}

TEST_P(TierTest, SnapshotsOfOneStateShareItInAnyOrderOfGoing) {
  const std::vector<DiskSnapshot> three = {SomeSnapshot({.key = 11, .state = 10}, "a"),
                                           SomeSnapshot({.key = 12, .state = 10}, "b"),
                                           SomeSnapshot({.key = 13, .state = 10}, "c")};
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    MustPut({three[0]});
    // Those that follow need not bring it.
    DiskSnapshot without = three[1];
    without.state.clear();
    MustPut({without, three[2]});
    EXPECT_EQ(tier_.usage().snapshots, 3);
    EXPECT_EQ(tier_.usage().states, 1);
    for (size_t gone = 0; gone < 3; ++gone) {
      for (size_t i = gone; i < 3; ++i) ExpectKept(tier_, three[order[i]]);
      MustErase({three[order[gone]].name.key});
      ExpectNone(tier_, three[order[gone]].name.key);
    }
    EXPECT_FALSE(tier_.HasState(10));
    EXPECT_EQ(tier_.usage().bytes, 0);
  }
}

TEST_P(TierTest, AStateThatIsPutTogetherWithItsForksIsKeptOnce) {
  const std::vector<DiskSnapshot> all = {SomeSnapshot({.key = 4, .state = 4}, "a"),
                                         SomeSnapshot({.key = 5, .state = 4}, "b"),
                                         SomeSnapshot({.key = 6, .state = 4}, "c")};
  MustPut(all);
  for (const DiskSnapshot& snapshot : all) ExpectKept(tier_, snapshot);
  EXPECT_EQ(tier_.usage().states, 1);
}

TEST_P(TierTest, RefusalLeavesWhatWasThere) {
  const DiskSnapshot one = SomeSnapshot({.key = 1, .state = 1}, "a");
  MustPut({one});
  DiskSnapshot wrong = SomeSnapshot({.key = 2, .state = 2}, "b");
  wrong.record.position = -1;
  DiskSnapshot longer = SomeSnapshot({.key = 3, .state = 3}, "b");
  longer.state.push_back({});
  DiskSnapshot stateless = SomeSnapshot({.key = 4, .state = 4}, "b");
  stateless.state.clear();
  const DiskSnapshot good = SomeSnapshot({.key = 5, .state = 5}, "b");
  const auto statuses = PutAll(tier_, {wrong, longer, good, stateless});
  for (const int i : {0, 1, 3}) EXPECT_TRUE(absl::IsInvalidArgument(statuses[i])) << statuses[i];
  EXPECT_TRUE(statuses[2].ok()) << statuses[2];
  for (const SnapshotKey key : {2, 3, 4}) ExpectNone(tier_, key);
  std::vector<std::byte> state(kStateBytes + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(tier_.State(1, state)));
  state.resize(kStateBytes - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(tier_.State(1, state)));
  ExpectKept(tier_, one);
  ExpectKept(tier_, good);
}

TEST_P(TierTest, HoldsItsLimitAndNoMore) {
  std::vector<SnapshotKey> kept;
  SnapshotKey key = 0;
  absl::Status status;
  while (status.ok() && key < 10'000) {
    ++key;
    status = Put(SomeSnapshot({.key = key, .state = key}, "s" + std::to_string(key)));
    if (status.ok()) kept.push_back(key);
    EXPECT_LE(tier_.usage().bytes, tier_.usage().limit_bytes);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  ExpectNone(tier_, key);
  ASSERT_GT(kept.size(), 3u);
  for (const SnapshotKey each : kept) {
    ExpectKept(tier_, SomeSnapshot({.key = each, .state = each}, "s" + std::to_string(each)));
  }
  MustErase({kept[1]});
  ++key;
  const DiskSnapshot next = SomeSnapshot({.key = key, .state = key}, "next");
  EXPECT_TRUE(Put(next).ok());
  ExpectKept(tier_, next);
  kept[1] = key;
  MustErase(kept);
  EXPECT_EQ(tier_.usage().bytes, 0);
}

TEST_P(TierTest, RecordsCanBeReadWhileOthersComeAndGo) {
  const DiskSnapshot stays = SomeSnapshot({.key = 1, .state = 1}, "stays");
  MustPut({stays});
  std::atomic<bool> done = false;
  const std::jthread writer([&] {
    for (SnapshotKey key = 2; key < 300; ++key) {
      EXPECT_TRUE(Put(SomeSnapshot({.key = key, .state = 1}, "comes")).ok());
      if (key > 2) MustErase({key - 1});
    }
    done = true;
  });
  while (!done) ASSERT_NO_FATAL_FAILURE(ExpectKept(tier_, stays));
}

TEST_P(TierTest, WhatIsSetAsideIsThereNoMore) {
  const DiskSnapshot one = SomeSnapshot({.key = 1, .state = 1}, "a");
  const DiskSnapshot fork = SomeSnapshot({.key = 2, .state = 1}, "b");
  MustPut({one, fork});
  EXPECT_TRUE(tier_.SetAside(1).ok());
  ExpectNone(tier_, 1);
  ExpectKept(tier_, fork);
  EXPECT_TRUE(tier_.SetAside(2).ok());
  ExpectNone(tier_, 2);
  EXPECT_EQ(tier_.usage().bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Tiers, TierTest, testing::ValuesIn(kTiers),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fermata
