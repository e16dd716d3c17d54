// Checkpoints, rewinds, forks, pinned sessions, export and import.

#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class ForksTest : public testing::Test {
 protected:
  // A session with `turns` turns, each of which ends at ten times its number, with a state of it.
  void MakeStory(const std::string& id, int turns, int32_t max_checkpoints) {
    SessionStore::CreateOptions options;
    options.id = id;
    options.labels = {{"of", id}};
    options.max_checkpoints = max_checkpoints;
    ASSERT_TRUE(store_->Create(options).ok());
    for (int turn = 1; turn <= turns; ++turn) {
      clock_.Advance(absl::Seconds(1));
      ASSERT_TRUE(RunTurn(*store_, id, 10 * turn, turn).ok());
    }
  }
  std::vector<int64_t> CheckpointsOf(const std::string& id) {
    std::vector<int64_t> positions;
    const absl::StatusOr<SessionRecord> record = store_->Get(id);
    EXPECT_TRUE(record.ok()) << record.status();
    for (const Checkpoint& at : record->checkpoints) positions.push_back(at.position);
    return positions;
  }

  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ = SmallStore(8, clock_);
};

TEST_F(ForksTest, EachTurnLeavesACheckpointAndTheOldestGo) {
  MakeStory("a", 5, 3);
  EXPECT_EQ(CheckpointsOf("a"), (std::vector<int64_t>{20, 30, 40}));
  const SessionRecord record = store_->Get("a").value();
  EXPECT_EQ(record.checkpoints[1].turns, 3u);
  EXPECT_EQ(record.checkpoints[1].time, clock_.Now() - absl::Seconds(2));
  EXPECT_EQ(store_->stats().checkpoints, 3);
  EXPECT_EQ(store_->stats().checkpoint_bytes, 3 * kTestStateBytes);
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 4);

  SessionStore::UpdateOptions fewer;
  fewer.max_checkpoints = 1;
  EXPECT_EQ(store_->Update("a", fewer)->checkpoints.size(), 1u);
  EXPECT_EQ(CheckpointsOf("a"), (std::vector<int64_t>{40}));
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 2);
}

TEST_F(ForksTest, ATurnWithoutCheckpointsTakesNoSecondSlot) {
  MakeStory("a", 3, 0);
  EXPECT_TRUE(CheckpointsOf("a").empty());
  SessionStore::Lease lease = MustBegin(*store_, "a");
  EXPECT_LT(store_->stats().tiers[0].usage.bytes, 2 * kTestStateBytes);
}

TEST_F(ForksTest, RewindGoesOnFromThere) {
  MakeStory("a", 5, 4);
  SessionStore::UpdateOptions update;
  update.labels = std::map<std::string, std::string>{{"new", "label"}};
  const SessionRecord before = store_->Update("a", update).value();
  const SessionRecord back = store_->Rewind("a", {.turns = 3}).value();
  EXPECT_EQ(back.position, 30);
  EXPECT_EQ(back.turns, 3u);
  EXPECT_EQ(back.revision, before.revision + 1);
  EXPECT_EQ(back.labels, *update.labels);
  EXPECT_EQ(store_->Get("a").value(), back);
  EXPECT_EQ(CheckpointsOf("a"), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(StateOf(*store_, "a"), Filled(3));
  EXPECT_EQ(store_->stats().positions, 30);
  EXPECT_EQ(store_->stats().checkpoint_bytes, 2 * kTestStateBytes);

  ASSERT_TRUE(RunTurn(*store_, "a", 35, 77).ok());
  EXPECT_EQ(CheckpointsOf("a"), (std::vector<int64_t>{10, 20, 30}));
  EXPECT_EQ(store_->Rewind("a", {.before_last_turn = true})->position, 30);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(3));
  EXPECT_EQ(store_->Rewind("a", {.position = 10})->turns, 1u);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 1);
}

TEST_F(ForksTest, RewindToWhereItStandsChangesNothing) {
  MakeStory("a", 2, 2);
  const SessionRecord before = store_->Get("a").value();
  EXPECT_EQ(store_->Rewind("a", {.turns = 2}).value(), before);
  EXPECT_EQ(store_->Get("a").value(), before);
}

TEST_F(ForksTest, PlacesThatAreNotThere) {
  MakeStory("a", 4, 2);
  for (const SessionStore::Place& place :
       {SessionStore::Place{.turns = 1}, SessionStore::Place{.turns = 5},
        SessionStore::Place{.position = 35}}) {
    EXPECT_EQ(Reason(store_->Rewind("a", place).status()), "NOT_FOUND CHECKPOINT_NOT_FOUND");
    EXPECT_EQ(Reason(store_->Fork("a", {.place = place}).status()),
              "NOT_FOUND CHECKPOINT_NOT_FOUND");
  }
  MakeStory("none", 1, 0);
  EXPECT_EQ(Reason(store_->Rewind("none", {.before_last_turn = true}).status()),
            "NOT_FOUND CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(Reason(store_->Rewind("b", {}).status()), "NOT_FOUND SESSION_NOT_FOUND");
}

TEST_F(ForksTest, AForkAndItsSourceAreTwoSessions) {
  MakeStory("a", 3, 1);
  clock_.Advance(absl::Seconds(1));
  const SessionRecord source = store_->Get("a").value();
  SessionStore::ForkOptions options;
  options.target.id = "b";
  options.target.labels = {{"fork", "yes"}};
  const SessionRecord fork = store_->Fork("a", options).value();
  SessionRecord want = source;
  want.id = "b";
  want.labels = options.target.labels;
  want.create_time = want.update_time = clock_.Now();
  want.parent_id = "a";
  want.parent_position = 30;
  want.revision = 0;
  want.checkpoints.clear();
  EXPECT_EQ(fork, want);
  EXPECT_EQ(store_->Get("b").value(), want);
  EXPECT_EQ(store_->Get("a").value(), source);
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 2);

  ASSERT_TRUE(RunTurn(*store_, "b", 31, 0xB).ok());
  EXPECT_EQ(StateOf(*store_, "a"), Filled(3));
  ASSERT_TRUE(RunTurn(*store_, "a", 32, 0xA).ok());
  EXPECT_EQ(StateOf(*store_, "b"), Filled(0xB));
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(StateOf(*store_, "b"), Filled(0xB));
  EXPECT_EQ(Reason(store_->Fork("b", {.target = {.id = "b"}}).status()),
            "ALREADY_EXISTS SESSION_EXISTS");
}

TEST_F(ForksTest, AForkFromACheckpoint) {
  MakeStory("a", 3, 3);
  EXPECT_EQ(store_->Fork("a", {.target = {.id = "b"}, .place = {.turns = 1}})->position, 10);
  EXPECT_EQ(StateOf(*store_, "b"), Filled(1));
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(StateOf(*store_, "b"), Filled(1));
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 1);
}

TEST_F(ForksTest, AThousandForksHoldOneStateUntilTheyDiffer) {
  SessionStoreOptions options = SmallStoreOptions(0, clock_);
  options.memory_bytes = 16 * kTestStateBytes;
  store_ = std::make_unique<SessionStore>(options);
  MakeStory("a", 1, 0);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(store_->Fork("a", {.target = {.id = "f" + std::to_string(i)}}).ok());
  }
  EXPECT_EQ(store_->stats().sessions, 1001);
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 1);
  EXPECT_EQ(StateOf(*store_, "f999"), Filled(1));
  ASSERT_TRUE(RunTurn(*store_, "f500", 11, 5).ok());
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 2);
  EXPECT_EQ(StateOf(*store_, "f500"), Filled(5));
  EXPECT_EQ(StateOf(*store_, "f501"), Filled(1));
}

TEST_F(ForksTest, ATurnCanBeginAsAFork) {
  MakeStory("a", 2, 0);
  SessionStore::BeginOptions options = Creating("b");
  options.fork_from = "a";
  options.expected_position = 20;
  {
    SessionStore::Lease lease = store_->Begin(options).value();
    ASSERT_TRUE(lease.Fetch().ok());
    EXPECT_TRUE(lease.creates());
    EXPECT_EQ(lease.record().position, 20);
    EXPECT_EQ(lease.record().parent_id, "a");
    std::vector<std::byte> state = Filled(0);
    ASSERT_TRUE(lease.ReadState(state).ok());
    EXPECT_EQ(state, Filled(2));
    EXPECT_EQ(Reason(store_->Get("b").status()), "NOT_FOUND SESSION_NOT_FOUND");
  }  // It does not come to be.
  EXPECT_EQ(store_->stats().tiers[0].usage.snapshots, 1);
  {
    SessionStore::Lease lease = store_->Begin(options).value();
    EXPECT_TRUE(lease.TryFetch().value());
    SessionRecord record = lease.record();
    record.position = 25;
    ASSERT_TRUE(CommitTurn(lease, record, Filled(9)).ok());
  }
  EXPECT_EQ(store_->Get("b")->parent_position, 20);
  EXPECT_EQ(StateOf(*store_, "b"), Filled(9));
  EXPECT_EQ(StateOf(*store_, "a"), Filled(2));
  options.expected_position = 24;
  EXPECT_EQ(DetailsOf(store_->Begin(options).status()).metadata["position"], "25");
  options = Creating("c");
  options.fork_from = "nobody";
  EXPECT_EQ(Reason(store_->Begin(options).status()), "NOT_FOUND SESSION_NOT_FOUND");
  options.fork_from = "a";
  options.expected_position = 0;
  EXPECT_EQ(Reason(store_->Begin(options).status()), "ABORTED POSITION_MISMATCH");
}

TEST_F(ForksTest, APinnedSessionIsForForksAlone) {
  MakeStory("a", 2, 1);
  SessionStore::UpdateOptions update;
  update.pinned = true;
  update.ttl.emplace(absl::Seconds(1));
  EXPECT_TRUE(store_->Update("a", update)->pinned);
  clock_.Advance(absl::Hours(1));  // It does not expire,
  store_->DropExpired();
  for (int i = 0; i < 20; ++i) {  // nor has to make room.
    ASSERT_TRUE(RunTurn(*store_, "s" + std::to_string(i), 1, 1).ok());
  }
  EXPECT_GT(store_->stats().evictions, 0);
  for (const absl::Status& status :
       {store_->Begin(Existing("a")).status(), store_->Rewind("a", {.turns = 1}).status(),
        store_->Delete("a")}) {
    EXPECT_EQ(Reason(status), "FAILED_PRECONDITION SESSION_PINNED");
  }
  EXPECT_FALSE(store_->Fork("a", {.target = {.id = "b"}})->pinned);
  EXPECT_EQ(StateOf(*store_, "b"), Filled(2));
  update = {};
  update.pinned = false;
  update.ttl.emplace(std::nullopt);
  ASSERT_TRUE(store_->Update("a", update).ok());
  EXPECT_TRUE(RunTurn(*store_, "a", 21, 3).ok());
}

TEST_F(ForksTest, WhatIsExpectedIsLookedAtFirst) {
  MakeStory("a", 2, 2);
  const SessionRecord before = store_->Get("a").value();
  const SessionStore::Expected old_position{.position = 19};
  const SessionStore::Expected old_revision{.revision = before.revision - 1};
  for (const auto& [expected, reason, key, actual] :
       {std::tuple(old_position, "ABORTED POSITION_MISMATCH", "position", "20"),
        std::tuple(old_revision, "ABORTED REVISION_MISMATCH", "revision", "2")}) {
    SessionStore::UpdateOptions update;
    update.expected = expected;
    for (const absl::Status& status :
         {store_->Update("a", update).status(), store_->Delete("a", expected),
          store_->Rewind("a", {.turns = 1}, expected).status(),
          store_->Fork("a", {.expected = expected}).status()}) {
      EXPECT_EQ(Reason(status), reason);
      EXPECT_EQ(DetailsOf(status).metadata[key], actual);
    }
  }
  EXPECT_EQ(store_->Get("a").value(), before);
  EXPECT_TRUE(store_->Delete("a", {.position = 20, .revision = 2}).ok());
}

TEST_F(ForksTest, ASessionInATurnIsLeftAlone) {
  MakeStory("a", 2, 2);
  SessionStore::Lease lease = MustBegin(*store_, "a");
  for (const absl::Status& status :
       {store_->Rewind("a", {.turns = 1}).status(), store_->Fork("a", {}).status(),
        store_->Export("a", {}).status()}) {
    EXPECT_EQ(Reason(status), "ABORTED SESSION_BUSY");
  }
}

// Checkpoints go before sessions do, and never keep one from going on.
TEST_F(ForksTest, CheckpointsMakeRoomForSessions) {
  store_ = SmallStore(4, clock_);
  MakeStory("a", 8, 64);
  EXPECT_EQ(CheckpointsOf("a"), (std::vector<int64_t>{50, 60, 70}));
  EXPECT_EQ(StateOf(*store_, "a"), Filled(8));
  for (const char* id : {"b", "c", "d"}) ASSERT_TRUE(RunTurn(*store_, id, 1, 1).ok());
  EXPECT_EQ(store_->stats().evictions, 0);
  EXPECT_TRUE(CheckpointsOf("a").empty());
  EXPECT_EQ(StateOf(*store_, "a"), Filled(8));
}

std::string AllOf(const SessionStore::Exported& exported) {
  return exported.head + AsText(exported.state);
}

TEST_F(ForksTest, ExportAndImport) {
  MakeStory("a", 2, 2);
  const SessionStore::Exported exported = store_->Export("a", {}).value();
  EXPECT_EQ(exported.state, Filled(2));
  const SessionRecord before = store_->Get("a").value();
  ASSERT_TRUE(store_->Delete("a").ok());
  clock_.Advance(absl::Seconds(5));
  SessionRecord want = before;
  want.update_time = clock_.Now();
  want.checkpoints.clear();
  EXPECT_EQ(store_->Import(AllOf(exported), {}).value(), want);
  EXPECT_EQ(store_->Get("a").value(), want);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(2));
  EXPECT_EQ(Reason(store_->Import(AllOf(exported), {}).status()), "ALREADY_EXISTS SESSION_EXISTS");
  EXPECT_EQ(store_->Import(AllOf(exported), {.id = "b"})->id, "b");
  ASSERT_TRUE(RunTurn(*store_, "b", 99, 9).ok());
  EXPECT_EQ(store_->Import(AllOf(exported), {.id = "b", .replace = true})->revision, 4u);
  EXPECT_EQ(StateOf(*store_, "b"), Filled(2));
  EXPECT_EQ(store_->stats().tiers[0].usage.snapshots, 2);
}

TEST_F(ForksTest, AnExportOfACheckpoint) {
  MakeStory("a", 3, 3);
  const SessionStore::Exported exported = store_->Export("a", {.turns = 1}).value();
  EXPECT_EQ(store_->Import(AllOf(exported), {.id = "b"})->position, 10);
  EXPECT_EQ(StateOf(*store_, "b"), Filled(1));
}

TEST_F(ForksTest, AnImportIsCheckedWholeBeforeAnythingChanges) {
  MakeStory("a", 1, 0);
  const SessionRecord before = store_->Get("a").value();
  const SessionStore::Exported exported = store_->Export("a", {}).value();
  const std::string good = AllOf(exported);
  const auto refused = [&](const std::string& bytes, SessionStore& store) {
    return store.Import(bytes, {.id = "a", .replace = true}).status();
  };
  for (const size_t at :
       {size_t{0}, size_t{9}, size_t{100}, exported.head.size(), good.size() - 1}) {
    std::string flipped = good;
    flipped[at] ^= 1;
    EXPECT_EQ(Reason(refused(flipped, *store_)), "INVALID_ARGUMENT SNAPSHOT_DAMAGED") << at;
    EXPECT_EQ(Reason(refused(good.substr(0, at), *store_)), "INVALID_ARGUMENT SNAPSHOT_DAMAGED");
  }
  std::vector<std::byte> state = exported.state;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&state[400], &nan, sizeof(nan));
  const absl::Status status = refused(EncodeExport(exported.record, state), *store_);
  EXPECT_EQ(Reason(status), "INVALID_ARGUMENT SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(status).metadata["offset"], std::to_string(exported.head.size() + 400));
  SessionRecord other = exported.record;
  other.model_fingerprint = "another";
  const absl::Status model = refused(EncodeExport(other, exported.state), *store_);
  EXPECT_EQ(Reason(model), "FAILED_PRECONDITION SNAPSHOT_MODEL");
  EXPECT_EQ(DetailsOf(model).metadata["model_fingerprint"], "another");
  EXPECT_EQ(DetailsOf(model).metadata["expected_model_fingerprint"], "f00d");
  state.resize(1000);
  EXPECT_EQ(
      DetailsOf(refused(EncodeExport(exported.record, state), *store_)).metadata["state_bytes"],
      "1000");
  EXPECT_EQ(store_->Get("a").value(), before);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
}

TEST_F(ForksTest, SettingsAreChecked) {
  MakeStory("a", 1, 0);
  const auto field = [](const absl::Status& status) { return DetailsOf(status).metadata["field"]; };
  SessionStore::UpdateOptions update;
  for (const int32_t wrong : {-1, 65}) {
    update.max_checkpoints = wrong;
    EXPECT_EQ(field(store_->Update("a", update).status()), "max_checkpoints");
    EXPECT_EQ(field(store_->Create({.max_checkpoints = wrong}).status()), "max_checkpoints");
  }
  EXPECT_EQ(field(store_->Create({.durability = Durability::kDisk}).status()), "durability");
  SessionStore::BeginOptions begin = Existing("a");
  begin.durability = Durability::kDisk;
  EXPECT_EQ(field(store_->Begin(begin).status()), "durability");
}

}  // namespace
}  // namespace fermata
