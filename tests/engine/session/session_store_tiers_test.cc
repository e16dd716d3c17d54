// Sessions in memory and in a tier below: moves, durability, failure, damage.

#include <future>
#include <thread>

#include "engine/base/error.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/test_tier.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class Observer : public SessionObserver {
 public:
  void Restored(std::string_view tier, absl::Duration) override {
    const std::lock_guard lock(mutex_);
    ++restored_[std::string(tier)];
  }
  void Persisted(int64_t commits, absl::Duration) override { persisted_ += commits; }
  void Trouble(std::string_view id, const absl::Status&) override {
    const std::lock_guard lock(mutex_);
    trouble_.emplace_back(id);
  }
  int restored(const std::string& tier) {
    const std::lock_guard lock(mutex_);
    return restored_[tier];
  }
  std::vector<std::string> trouble() {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }
  int64_t persisted() const { return persisted_; }

 private:
  std::mutex mutex_;
  std::map<std::string, int> restored_;
  std::vector<std::string> trouble_;
  std::atomic<int64_t> persisted_ = 0;
};

class TiersTest : public testing::Test {
 protected:
  TiersTest() { Start(3); }

  // A store of `capacity` slots over what the tier below holds.
  void Start(int64_t capacity, std::vector<DiskTier::Found> found = {}) {
    store_.reset();
    SessionStoreOptions options = SmallStoreOptions(capacity, clock_);
    options.observer = &observer_;
    store_ = std::make_unique<SessionStore>(options, std::make_unique<TestTier>(below_, controls_),
                                            std::move(found));
  }
  void Create(const std::string& id, Durability durability, int32_t max_checkpoints = 0) {
    SessionStore::CreateOptions options;
    options.id = id;
    options.durability = durability;
    options.max_checkpoints = max_checkpoints;
    const auto created = store_->Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  absl::Status Turn(const std::string& id, int64_t position, uint8_t fill) {
    return RunTurn(*store_, id, position, fill).status();
  }
  // Moves all that is idle out of memory.
  void PushDown() {
    for (int i = 0; i < 8; ++i) {
      const std::string id = "push" + std::to_string(i);
      ASSERT_TRUE(Turn(id, 1, 1).ok());
    }
  }
  TierUsage Below() { return below_->usage(); }

  FakeClock clock_;
  Observer observer_;
  TestTier::Controls controls_;
  std::shared_ptr<MemoryTier> below_ = std::make_shared<MemoryTier>(kTestStateBytes, 64 << 20);
  std::unique_ptr<SessionStore> store_;
};

TEST_F(TiersTest, MoreSessionsThanMemoryHolds) {
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 12; ++i) {
      const std::string id = "s" + std::to_string(i);
      if (round > 1) {
        EXPECT_EQ(StateOf(*store_, id), Filled(10 * (round - 1) + i));
      }
      ASSERT_TRUE(Turn(id, round, 10 * round + i).ok());
    }
  }
  const SessionStoreStats stats = store_->stats();
  EXPECT_EQ(stats.sessions, 12);
  EXPECT_EQ(stats.evictions, 0);
  EXPECT_GE(stats.moves_down_pressure, 30);
  EXPECT_GE(stats.moves_up_turn, 20);
  ASSERT_EQ(stats.tiers.size(), 2u);
  EXPECT_LE(stats.tiers[0].sessions, 4);
  EXPECT_EQ(stats.tiers[0].sessions + stats.tiers[1].sessions, 12);
  EXPECT_LE(stats.tiers[0].usage.bytes, stats.tiers[0].usage.limit_bytes);
  EXPECT_EQ(stats.positions, 36);
  EXPECT_GE(observer_.restored("below"), 20);
  ASSERT_EQ(store_->List({})->sessions.size(), 12u);
  // What was superseded is gone, and what is there is each session's newest.
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Below().snapshots, 12);
}

TEST_F(TiersTest, ADurableCommitIsBelowWhenItIsTold) {
  Create("a", Durability::kDisk);
  EXPECT_EQ(Below().snapshots, 1);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  ASSERT_TRUE(store_->Flush().ok());  // For what was superseded to be gone.
  EXPECT_EQ(Below().snapshots, 1);
  EXPECT_EQ(store_->stats().moves_down_drain, 0);
  Create("m", Durability::kMemory);
  ASSERT_TRUE(Turn("m", 10, 1).ok());
  EXPECT_EQ(Below().snapshots, 1);
  SessionStore::BeginOptions options = Existing("m");
  options.durability = Durability::kDisk;
  SessionStore::Lease lease = store_->Begin(options).value();
  ASSERT_TRUE(lease.Fetch().ok());
  ASSERT_TRUE(CommitTurn(lease, lease.record(), Filled(2)).ok());
  EXPECT_EQ(Below().snapshots, 2);
  EXPECT_EQ(observer_.persisted(), 2);
}

TEST_F(TiersTest, CommitsThatWaitAreWrittenTogether) {
  Start(8);
  const std::vector<std::string> ids = {"a", "b", "c", "d", "e", "f"};
  for (const std::string& id : ids) Create(id, Durability::kDisk);
  const int64_t puts = controls_.puts;
  controls_.Close();
  std::vector<std::future<absl::StatusOr<SessionRecord>>> results;
  for (const std::string& id : ids) {
    SessionStore::Lease lease = MustBegin(*store_, id);
    auto done = std::make_shared<std::promise<absl::StatusOr<SessionRecord>>>();
    results.push_back(done->get_future());
    SessionRecord record = lease.record();
    record.position = 5;
    record.pending_token = 1;
    lease.Commit(record, Filled(5), [done](absl::StatusOr<SessionRecord> result) {
      done->set_value(std::move(result));
    });
    // Until it is written, the session is as it was, and busy.
    EXPECT_EQ(store_->Get(id)->position, 0);
    EXPECT_EQ(Reason(store_->Begin(Existing(id)).status()), "ABORTED SESSION_BUSY");
  }
  EXPECT_EQ(controls_.puts, puts);
  controls_.Open();
  for (auto& result : results) EXPECT_EQ(result.get()->position, 5);
  EXPECT_LE(controls_.puts, puts + 2);  // The first may have gone alone.
  for (const std::string& id : ids) EXPECT_EQ(StateOf(*store_, id), Filled(5));
}

TEST_F(TiersTest, AFailedCommitLeavesAllAsItWas) {
  Create("clean", Durability::kDisk);
  ASSERT_TRUE(Turn("clean", 10, 1).ok());
  Create("dirty", Durability::kMemory);
  ASSERT_TRUE(Turn("dirty", 20, 2).ok());
  const SessionRecord clean = store_->Get("clean").value();
  const SessionRecord dirty = store_->Get("dirty").value();
  controls_.full = true;
  for (const char* id : {"clean", "dirty", "new"}) {
    SessionStore::BeginOptions options = Creating(id);
    options.durability = Durability::kDisk;
    SessionStore::Lease lease = store_->Begin(options).value();
    ASSERT_TRUE(lease.Fetch().ok());
    SessionRecord record = lease.record();
    record.position = 99;
    record.pending_token = 1;
    const absl::Status status = CommitTurn(lease, record, Filled(9)).status();
    EXPECT_EQ(Reason(status), "RESOURCE_EXHAUSTED DISK_FULL");
    EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
    EXPECT_EQ(DetailsOf(status).metadata["session_id"], id);
  }
  EXPECT_EQ(Reason(store_->Create({.durability = Durability::kDisk}).status()),
            "RESOURCE_EXHAUSTED DISK_FULL");
  EXPECT_EQ(store_->Get("clean").value(), clean);
  EXPECT_EQ(store_->Get("dirty").value(), dirty);
  EXPECT_EQ(Reason(store_->Get("new").status()), "NOT_FOUND SESSION_NOT_FOUND");
  EXPECT_EQ(StateOf(*store_, "clean"), Filled(1));
  EXPECT_EQ(StateOf(*store_, "dirty"), Filled(2));
  EXPECT_EQ(store_->stats().sessions, 2);
  controls_.full = false;
  ASSERT_TRUE(Turn("clean", 11, 3).ok());
  EXPECT_EQ(StateOf(*store_, "clean"), Filled(3));
}

TEST_F(TiersTest, WhenAllIsFullNothingIsDropped) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Turn(id, 10, *id).ok());
  controls_.full = true;
  for (const char* id : {"d", "e"}) {
    const absl::Status status = store_->Create({.id = id}).status();
    EXPECT_EQ(Reason(status), "RESOURCE_EXHAUSTED DISK_FULL");
    EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
  }
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(StateOf(*store_, id), Filled(*id));
    ASSERT_TRUE(Turn(id, 11, *id).ok());  // What is in memory goes on.
  }
  controls_.full = false;
  EXPECT_TRUE(store_->Create({.id = "d"}).ok());
  EXPECT_EQ(store_->stats().sessions, 4);
  EXPECT_EQ(store_->stats().evictions, 0);
}

TEST_F(TiersTest, WhatCanNotBeFlushedIsTold) {
  for (const char* id : {"a", "b"}) ASSERT_TRUE(Turn(id, 10, *id).ok());
  controls_.full = true;
  EXPECT_EQ(Reason(store_->Flush()), "RESOURCE_EXHAUSTED DISK_FULL");
  controls_.full = false;
  EXPECT_TRUE(store_->Flush().ok());
  EXPECT_EQ(store_->stats().moves_down_drain, 2);
  EXPECT_EQ(StateOf(*store_, "a"), Filled('a'));
}

TEST_F(TiersTest, TurnsInMemoryDoNotWaitForTheTierBelow) {
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  PushDown();
  ASSERT_TRUE(Turn("m", 10, 2).ok());
  controls_.Close();
  {
    SessionStore::Lease lease = store_->Begin(Existing("m")).value();
    ASSERT_TRUE(lease.TryFetch().value());
    std::vector<std::byte> state = Filled(0);
    ASSERT_TRUE(lease.ReadState(state).ok());
    EXPECT_EQ(state, Filled(2));
    EXPECT_TRUE(CommitTurn(lease, lease.record(), Filled(3)).ok());
  }
  {
    SessionStore::Lease lease = store_->Begin(Existing("a")).value();
    EXPECT_FALSE(lease.TryFetch().value());
  }
  store_->DropExpired();
  EXPECT_EQ(store_->stats().sessions, 10);
  controls_.Open();
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
}

TEST_F(TiersTest, ATurnWaitsForAMoveAndIsNotRefused) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Turn(id, 10, *id).ok());
  controls_.Close();
  const int64_t before = controls_.Arrivals();
  std::thread creator([&] { EXPECT_TRUE(store_->Create({.id = "d"}).ok()); });
  controls_.AwaitArrivals(before + 1);  // "a" is on its way down.
  SessionStore::Lease lease = store_->Begin(Existing("a")).value();
  EXPECT_FALSE(lease.TryFetch().value());
  auto fetched = std::async(std::launch::async, [&] { return lease.Fetch(); });
  controls_.Open();
  EXPECT_TRUE(fetched.get().ok());
  std::vector<std::byte> state = Filled(0);
  ASSERT_TRUE(lease.ReadState(state).ok());
  EXPECT_EQ(state, Filled('a'));
  creator.join();
}

// After a crash a session is at a turn's boundary that was committed: what is below is not taken
// away before something newer is there.
TEST_F(TiersTest, TheNewestBelowStaysUntilItIsSuperseded) {
  Create("a", Durability::kMemory, /*max_checkpoints=*/1);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(store_->stats().moves_down_drain, 1);
  const int64_t flushed = Below().snapshots;
  for (int64_t position = 11; position < 15; ++position) {
    ASSERT_TRUE(Turn("a", position, position).ok());
    EXPECT_GE(Below().snapshots, 1) << position;
  }
  EXPECT_EQ(flushed, 2);  // With its checkpoint.
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Below().snapshots, 2);
  PushDown();
  EXPECT_EQ(StateOf(*store_, "a"), Filled(14));
  EXPECT_EQ(store_->Rewind("a", {.before_last_turn = true})->position, 13);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(13));
}

TEST_F(TiersTest, CheckpointsMoveDownWithTheirSession) {
  Create("a", Durability::kMemory, 8);
  for (int turn = 1; turn <= 8; ++turn) ASSERT_TRUE(Turn("a", turn, turn).ok());
  PushDown();
  EXPECT_EQ(store_->Get("a")->checkpoints.size(), 8u);
  EXPECT_EQ(store_->stats().checkpoint_bytes, 8 * kTestStateBytes);
  EXPECT_EQ(store_->Fork("a", {.target = {.id = "f"}, .place = {.turns = 2}})->position, 2);
  EXPECT_EQ(StateOf(*store_, "f"), Filled(2));
  EXPECT_EQ(store_->Rewind("a", {.turns = 5})->checkpoints.size(), 5u);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(5));
}

TEST_F(TiersTest, ForksShareTheirStateBelow) {
  Create("a", Durability::kDisk);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store_->Fork("a", {.target = {.id = "f" + std::to_string(i)}}).ok());
  }
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Below().snapshots, 11);
  EXPECT_EQ(Below().states, 1);
  PushDown();
  ASSERT_TRUE(store_->Fork("f1", {.target = {.id = "g"}}).ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(StateOf(*store_, "f9"), Filled(1));
  EXPECT_EQ(StateOf(*store_, "g"), Filled(1));
  SessionStore::BeginOptions options = Creating("h");
  options.fork_from = "f3";
  SessionStore::Lease lease = store_->Begin(options).value();
  ASSERT_TRUE(lease.Fetch().ok());
  std::vector<std::byte> state = Filled(0);
  ASSERT_TRUE(lease.ReadState(state).ok());
  EXPECT_EQ(state, Filled(1));
}

// A turn writes over a state in memory; who comes up meanwhile with the same state must not get that.
TEST_F(TiersTest, AForkInATurnSharesWithNobody) {
  Create("a", Durability::kDisk);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  for (const char* id : {"x", "y"}) {
    ASSERT_TRUE(store_->Fork("a", {.target = {.id = id}}).ok());
  }
  PushDown();
  SessionStore::Lease lease = MustBegin(*store_, "x");
  ASSERT_TRUE(store_->Fork("a", {.target = {.id = "z", .durability = Durability::kMemory}}).ok());
  EXPECT_EQ(StateOf(*store_, "y"), Filled(1));
  SessionRecord record = lease.record();
  record.position = 20;
  ASSERT_TRUE(CommitTurn(lease, record, Filled(2)).ok());
  EXPECT_EQ(StateOf(*store_, "z"), Filled(1));
  EXPECT_EQ(StateOf(*store_, "y"), Filled(1));
  EXPECT_EQ(StateOf(*store_, "x"), Filled(2));
}

TEST_F(TiersTest, DeletionAndExpiryReallyDelete) {
  Create("a", Durability::kDisk, 3);
  for (int turn = 1; turn <= 4; ++turn) ASSERT_TRUE(Turn("a", turn, turn).ok());
  ASSERT_TRUE(
      store_->Create({.id = "brief", .ttl = absl::Seconds(1), .durability = Durability::kDisk})
          .ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  clock_.Advance(absl::Seconds(2));
  store_->DropExpired();
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Below().snapshots, 0);
  Create("a", Durability::kDisk);  // The id can be used again.
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0));
}

TEST_F(TiersTest, UpdatesOfWhatIsBelowStayBelow) {
  Create("a", Durability::kMemory);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  PushDown();
  SessionStore::UpdateOptions update;
  update.labels = std::map<std::string, std::string>{{"k", "v"}};
  const SessionRecord updated = store_->Update("a", update).value();
  EXPECT_EQ(store_->Get("a").value(), updated);
  EXPECT_EQ(store_->stats().moves_up_turn, 0);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
}

// The key of the newest snapshot of a session that is below.
SnapshotKey NewestKey(const MemoryTier& tier, const std::string& id) {
  for (SnapshotKey key = 1000; key > 0; --key) {
    const auto record = tier.Record(key);
    if (record.ok() && record->id == id) return key;
  }
  return 0;
}

TEST_F(TiersTest, DamageIsToldOnceAndTheNewestWholeCheckpointIsNext) {
  Create("a", Durability::kDisk, 4);
  for (int turn = 1; turn <= 4; ++turn) ASSERT_TRUE(Turn("a", 10 * turn, turn).ok());
  const SessionRecord before = store_->Get("a").value();
  PushDown();
  ASSERT_EQ(StateOf(*store_, "push0"), Filled(1));
  const SnapshotKey newest = NewestKey(*below_, "a");
  controls_.Damage(newest);
  controls_.Damage(before.checkpoints.back().snapshot.key);
  SessionStore::Lease lease = store_->Begin(Existing("a")).value();
  const absl::Status status = lease.Fetch();
  EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(status).metadata["position"], "20");
  EXPECT_EQ(DetailsOf(status).metadata["session_id"], "a");
  lease = SessionStore::Lease();
  EXPECT_EQ(controls_.set_aside.size(), 2u);
  EXPECT_EQ(observer_.trouble(), (std::vector<std::string>{"a", "a"}));
  EXPECT_EQ(store_->stats().damaged, 2);
  const SessionRecord after = store_->Get("a").value();
  EXPECT_EQ(after.position, 20);
  EXPECT_GT(after.revision, before.revision);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(2));
  EXPECT_EQ(after.checkpoints.size(), 2u);
  ASSERT_TRUE(Turn("a", 21, 9).ok());
}

TEST_F(TiersTest, WithNoWholeSnapshotItCanOnlyBeDeleted) {
  Create("a", Durability::kDisk);
  ASSERT_TRUE(Turn("a", 10, 1).ok());
  ASSERT_TRUE(Turn("sound", 10, 1).ok());
  PushDown();
  controls_.Damage(NewestKey(*below_, "a"));
  for (int i = 0; i < 2; ++i) {
    auto lease = store_->Begin(Existing("a"));
    const absl::Status status = lease.ok() ? lease->Fetch() : lease.status();
    EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
    EXPECT_FALSE(DetailsOf(status).metadata.contains("position"));
  }
  for (const absl::Status& status :
       {store_->Get("a").status(), store_->Update("a", {}).status(), store_->Fork("a", {}).status(),
        store_->Export("a", {}).status(), store_->Rewind("a", {.turns = 0}).status()}) {
    EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
  }
  EXPECT_EQ(Reason(store_->Create({.id = "a"}).status()), "ALREADY_EXISTS SESSION_EXISTS");
  EXPECT_EQ(store_->List({})->sessions.size(), 9u);
  EXPECT_EQ(StateOf(*store_, "sound"), Filled(1));
  EXPECT_TRUE(store_->Delete("a").ok());
  EXPECT_TRUE(Turn("a", 1, 5).ok());
  EXPECT_EQ(StateOf(*store_, "a"), Filled(5));
}

TEST_F(TiersTest, ADamagedCheckpointIsNotGoneBackTo) {
  Create("a", Durability::kDisk, 4);
  for (int turn = 1; turn <= 3; ++turn) ASSERT_TRUE(Turn("a", 10 * turn, turn).ok());
  PushDown();
  controls_.Damage(store_->Get("a")->checkpoints.back().snapshot.key);
  const absl::Status status = store_->Rewind("a", {.before_last_turn = true}).status();
  EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(status).metadata["position"], "30");
  EXPECT_EQ(Reason(store_->Rewind("a", {.before_last_turn = true}).status()),
            "NOT_FOUND CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(StateOf(*store_, "a"), Filled(3));
  EXPECT_EQ(store_->Rewind("a", {.turns = 1})->position, 10);
}

}  // namespace
}  // namespace fermata
