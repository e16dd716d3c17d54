#include "engine/session/tier.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "engine/session/memory_tier.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

constexpr size_t kStateBytes = 1000;  // Not a multiple of anything.

// Every tier of the service, made so that `capacity` snapshots fit.
struct TierCase {
  const char* name;
  std::function<std::unique_ptr<Tier>(int64_t capacity)> make;
};

const TierCase kTiers[] = {
    {"memory",
     [](int64_t capacity) {
       const int64_t each = MemoryTier(kStateBytes, /*memory_bytes=*/0).session_bytes();
       return std::make_unique<MemoryTier>(kStateBytes, capacity * each);
     }},
};

class TierTest : public testing::TestWithParam<TierCase> {
 protected:
  // Reserves and puts.
  void Keep(Tier& tier, const SessionRecord& record, const std::vector<std::byte>& state) {
    ASSERT_TRUE(tier.Reserve(record.id).ok());
    ASSERT_TRUE(tier.Put(record, state).ok());
  }
  // That `tier` gives back `record` and `state`, and their bytes as the format lays them out.
  void ExpectKept(const Tier& tier, const SessionRecord& record,
                  const std::vector<std::byte>& state) {
    EXPECT_EQ(tier.Record(record.id).value(), record);
    std::vector<std::byte> read(kStateBytes);
    EXPECT_TRUE(tier.State(record.id, read).ok());
    EXPECT_EQ(read, state);
    EXPECT_EQ(tier.Snapshot(record.id).value(), EncodeSnapshot(record, state));
  }
};

TEST_P(TierTest, KeepsTheBytesOfTheFormat) {
  const auto tier = GetParam().make(2);
  Keep(*tier, FullRecord("a"), SomeState(kStateBytes, 1));
  SessionRecord bare;
  bare.id = "b";
  Keep(*tier, bare, SomeState(kStateBytes, 2));
  ExpectKept(*tier, FullRecord("a"), SomeState(kStateBytes, 1));
  ExpectKept(*tier, bare, SomeState(kStateBytes, 2));
}

TEST_P(TierTest, RecordsOfAnyLengthFollowOneAnother) {
  const auto tier = GetParam().make(1);
  SessionRecord record = FullRecord("a");
  const std::vector<std::byte> first = SomeState(kStateBytes, 1);
  Keep(*tier, record, first);
  for (const size_t memory : {0, 1000, 10, 16'384, 16'300, 0}) {
    record.sampler_memory = std::string(memory, 'm');
    ++record.turns;
    ASSERT_TRUE(tier->PutRecord(record).ok());
    ExpectKept(*tier, record, first);
    ++record.position;
    const std::vector<std::byte> next = SomeState(kStateBytes, record.turns);
    ASSERT_TRUE(tier->Put(record, next).ok());
    ExpectKept(*tier, record, next);
    ASSERT_TRUE(tier->Put(record, first).ok());
  }
}

TEST_P(TierTest, WhatIsNotThereIsNotFound) {
  const auto tier = GetParam().make(1);
  std::vector<std::byte> state(kStateBytes);
  const auto expect_none = [&] {
    EXPECT_TRUE(absl::IsNotFound(tier->Record("a").status()));
    EXPECT_TRUE(absl::IsNotFound(tier->State("a", state)));
    EXPECT_TRUE(absl::IsNotFound(tier->Snapshot("a").status()));
    EXPECT_TRUE(absl::IsNotFound(tier->PutRecord(FullRecord("a"))));
  };
  expect_none();
  EXPECT_TRUE(absl::IsNotFound(tier->Put(FullRecord("a"), state)));  // No place reserved.
  expect_none();
  ASSERT_TRUE(tier->Reserve("a").ok());
  expect_none();
  ASSERT_TRUE(tier->Put(FullRecord("a"), state).ok());
  tier->Erase("a");
  expect_none();
  tier->Erase("a");
}

TEST_P(TierTest, HoldsItsCapacityAndNoMore) {
  const auto tier = GetParam().make(3);
  EXPECT_EQ(tier->usage().capacity, 3);
  for (const char* id : {"a", "b", "c", "b"}) EXPECT_TRUE(tier->Reserve(id).ok()) << id;
  EXPECT_EQ(tier->usage().snapshots, 3);
  EXPECT_LE(tier->usage().bytes, tier->usage().limit_bytes);
  EXPECT_TRUE(absl::IsResourceExhausted(tier->Reserve("d")));
  tier->Erase("b");
  EXPECT_EQ(tier->usage().snapshots, 2);
  Keep(*tier, FullRecord("d"), SomeState(kStateBytes, 4));
  ExpectKept(*tier, FullRecord("d"), SomeState(kStateBytes, 4));
  for (const char* id : {"a", "c", "d"}) tier->Erase(id);
  EXPECT_EQ(tier->usage().bytes, 0);
}

TEST_P(TierTest, RefusalLeavesWhatWasThere) {
  const auto tier = GetParam().make(1);
  const std::vector<std::byte> state = SomeState(kStateBytes, 1);
  Keep(*tier, FullRecord("a"), state);
  SessionRecord wrong = FullRecord("a");
  wrong.position = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(tier->Put(wrong, SomeState(kStateBytes, 2))));
  EXPECT_TRUE(absl::IsInvalidArgument(tier->PutRecord(wrong)));
  std::vector<std::byte> longer = SomeState(kStateBytes + 1, 2);
  std::vector<std::byte> shorter = SomeState(kStateBytes - 1, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(tier->Put(FullRecord("a"), longer)));
  EXPECT_TRUE(absl::IsInvalidArgument(tier->Put(FullRecord("a"), shorter)));
  EXPECT_TRUE(absl::IsInvalidArgument(tier->State("a", longer)));
  EXPECT_TRUE(absl::IsInvalidArgument(tier->State("a", shorter)));
  ExpectKept(*tier, FullRecord("a"), state);
}

TEST_P(TierTest, APlaceUsedAgainShowsNothingOfItsPast) {
  const auto tier = GetParam().make(1);
  SessionRecord past = FullRecord("past");
  past.sampler_memory = std::string(5000, 'p');
  Keep(*tier, past, SomeState(kStateBytes, 1));
  tier->Erase("past");
  ASSERT_TRUE(tier->Reserve("next").ok());
  std::vector<std::byte> state(kStateBytes, std::byte{0});
  EXPECT_TRUE(absl::IsNotFound(tier->State("next", state)));
  EXPECT_EQ(state, std::vector<std::byte>(kStateBytes, std::byte{0}));
  SessionRecord next;
  next.id = "next";
  ASSERT_TRUE(tier->Put(next, state).ok());
  ExpectKept(*tier, next, state);
}

TEST_P(TierTest, RecordsCanBeReadWhileASnapshotIsReplaced) {
  const auto tier = GetParam().make(2);
  SessionRecord record = FullRecord("a");
  record.turns = 0;
  Keep(*tier, record, SomeState(kStateBytes, 0));
  std::atomic<bool> done = false;
  const std::jthread writer([&] {
    SessionRecord next = record;
    for (int i = 1; i <= 2000; ++i) {
      next.turns = i;
      next.sampler_memory = std::string(i % 300, 'm');
      EXPECT_TRUE(tier->Put(next, SomeState(kStateBytes, i)).ok());
    }
    done = true;
  });
  uint64_t turns = 0;
  while (!done) {
    const auto read = tier->Record("a");
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_GE(read->turns, turns);
    if (read->turns > 0) {
      ASSERT_EQ(read->sampler_memory.size(), read->turns % 300);
    }
    turns = read->turns;
  }
  EXPECT_EQ(tier->Record("a")->turns, 2000u);
}

INSTANTIATE_TEST_SUITE_P(Tiers, TierTest, testing::ValuesIn(kTiers),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fermata
