#include "engine/session/session_store.h"

#include <set>

#include "engine/base/error.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class SessionStoreTest : public testing::Test {
 protected:
  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ = SmallStore(4, clock_);
};

TEST_F(SessionStoreTest, CreatedSessionIsEmpty) {
  SessionStore::CreateOptions options;
  options.id = "a";
  options.labels = {{"user", "ann"}};
  options.ttl = absl::Minutes(5);
  const auto created = store_->Create(options);
  ASSERT_TRUE(created.ok()) << created.status();
  SessionRecord want;
  want.id = "a";
  want.model_fingerprint = "f00d";
  want.labels = options.labels;
  want.ttl = options.ttl;
  want.create_time = want.update_time = clock_.Now();
  EXPECT_EQ(*created, want);
  EXPECT_EQ(store_->Get("a").value(), want);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0));
  EXPECT_EQ(Reason(store_->Create(options).status()), "ALREADY_EXISTS SESSION_EXISTS");
}

TEST_F(SessionStoreTest, GeneratedIdsAreLongAndDiffer) {
  std::set<std::string> ids;
  auto store = SmallStore(200, clock_);
  for (int i = 0; i < 50; ++i) {
    ids.insert(store->Create({}).value().id);
    ids.insert(MustBegin(*store, "").record().id);
  }
  EXPECT_EQ(ids.size(), 100u);
  for (const std::string& id : ids) {
    EXPECT_THAT(id, testing::MatchesRegex("s-[0-9a-f]{32}"));
    EXPECT_TRUE(ValidateSessionId(id, "id").ok());
  }
}

TEST_F(SessionStoreTest, TurnGoesOnFromTheCommit) {
  {
    SessionStore::Lease lease = MustBegin(*store_, "a");
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(lease.record().position, 0);
    std::vector<std::byte> state = Filled(0xEE);
    ASSERT_TRUE(lease.ReadState(state).ok());
    EXPECT_EQ(state, Filled(0));
    SessionRecord next = lease.record();
    next.position = 12;
    next.pending_token = 5;
    next.sampler_memory = "memory";
    next.id = "ignored";
    next.turns = 99;
    clock_.Advance(absl::Seconds(1));
    const SessionRecord committed = CommitTurn(lease, next, Filled(1)).value();
    EXPECT_FALSE(lease.valid());
    EXPECT_EQ(committed.id, "a");
    EXPECT_EQ(committed.position, 12);
    EXPECT_EQ(committed.pending_token, 5);
    EXPECT_EQ(committed.sampler_memory, "memory");
    EXPECT_EQ(committed.turns, 1u);
    EXPECT_EQ(committed.revision, 1u);
    EXPECT_EQ(committed.update_time, clock_.Now());
    EXPECT_EQ(committed.create_time, clock_.Now() - absl::Seconds(1));
    EXPECT_EQ(store_->Get("a").value(), committed);
  }
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
  SessionStore::Lease lease = MustBegin(*store_, "a");
  EXPECT_EQ(lease.record(), store_->Get("a").value());
  const SessionRecord same =
      CommitTurn(lease, lease.record(), Filled(2)).value();  // Its own record.
  EXPECT_EQ(same.sampler_memory, "memory");
  EXPECT_EQ(same.turns, 2u);
}

TEST_F(SessionStoreTest, LeaseWithoutCommitLeavesAllAsItWas) {
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  const SessionRecord before = store_->Get("a").value();
  clock_.Advance(absl::Seconds(1));
  {
    SessionStore::BeginOptions options = Existing("a");
    options.ttl = absl::Seconds(77);
    SessionStore::Lease lease = store_->Begin(options).value();
    ASSERT_TRUE(lease.Fetch().ok());
    std::vector<std::byte> state = Filled(0);
    ASSERT_TRUE(lease.ReadState(state).ok());
  }
  EXPECT_EQ(store_->Get("a").value(), before);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
}

TEST_F(SessionStoreTest, FailedFirstTurnLeavesNothing) {
  {
    SessionStore::Lease lease = MustBegin(*store_, "a");
    EXPECT_EQ(Reason(store_->Get("a").status()), "NOT_FOUND SESSION_NOT_FOUND");
    EXPECT_TRUE(store_->List({})->sessions.empty());
    EXPECT_EQ(store_->stats().sessions, 0);
    EXPECT_EQ(Reason(store_->Begin(Creating("a")).status()), "ABORTED SESSION_BUSY");
    SessionStore::CreateOptions options;
    options.id = "a";
    EXPECT_EQ(Reason(store_->Create(options).status()), "ABORTED SESSION_BUSY");
  }
  EXPECT_EQ(Reason(store_->Get("a").status()), "NOT_FOUND SESSION_NOT_FOUND");
  EXPECT_EQ(Reason(store_->Begin(Existing("a")).status()), "NOT_FOUND SESSION_NOT_FOUND");
  EXPECT_EQ(store_->stats().tiers[0].usage.bytes, 0);
  EXPECT_TRUE(RunTurn(*store_, "a", 1, 1).ok());
}

TEST_F(SessionStoreTest, OneTurnAtATime) {
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  SessionStore::Lease lease = MustBegin(*store_, "a");
  for (const absl::Status& status : {store_->Begin(Creating("a")).status(), store_->Delete("a"),
                                     store_->Update("a", {}).status()}) {
    EXPECT_EQ(Reason(status), "ABORTED SESSION_BUSY");
    EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
    EXPECT_EQ(DetailsOf(status).metadata["session_id"], "a");
  }
  EXPECT_EQ(store_->Get("a")->position, 10);
  SessionStore::Lease moved = std::move(lease);
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(absl::IsAborted(store_->Delete("a")));
  moved = SessionStore::Lease();
  EXPECT_TRUE(store_->Delete("a").ok());
}

TEST_F(SessionStoreTest, ExpectedPosition) {
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  SessionStore::BeginOptions options = Existing("a");
  options.expected_position = 9;
  const absl::Status status = store_->Begin(options).status();
  EXPECT_EQ(Reason(status), "ABORTED POSITION_MISMATCH");
  EXPECT_EQ(DetailsOf(status).metadata["position"], "10");
  EXPECT_EQ(DetailsOf(status).metadata["session_id"], "a");
  EXPECT_FALSE(DetailsOf(status).retry_after.has_value());
  options.expected_position = 10;
  EXPECT_TRUE(store_->Begin(options).ok());

  // A client that believes in a past must not be given a fresh session in its place.
  options = Creating("lost");
  options.expected_position = 10;
  EXPECT_EQ(DetailsOf(store_->Begin(options).status()).metadata["position"], "0");
  options.expected_position = 0;
  EXPECT_TRUE(store_->Begin(options).ok());
}

TEST_F(SessionStoreTest, DeletedIsGone) {
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  for (const absl::Status& status :
       {store_->Get("a").status(), store_->Delete("a"), store_->Update("a", {}).status(),
        store_->Begin(Existing("a")).status()}) {
    EXPECT_EQ(Reason(status), "NOT_FOUND SESSION_NOT_FOUND");
    EXPECT_EQ(DetailsOf(status).metadata["session_id"], "a");
  }
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0));
}

TEST_F(SessionStoreTest, UpdateChangesOnlyWhatItNames) {
  SessionStore::CreateOptions create;
  create.id = "a";
  create.labels = {{"k", "v"}};
  create.ttl = absl::Hours(1);
  ASSERT_TRUE(store_->Create(create).ok());
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  SessionRecord want = store_->Get("a").value();
  clock_.Advance(absl::Seconds(1));
  want.update_time = clock_.Now();
  ++want.revision;

  SessionStore::UpdateOptions update;
  update.labels = std::map<std::string, std::string>{{"other", "label"}};
  want.labels = *update.labels;
  EXPECT_EQ(store_->Update("a", update).value(), want);
  EXPECT_EQ(store_->Get("a").value(), want);

  update = {};
  update.ttl.emplace(std::nullopt);
  want.ttl.reset();
  ++want.revision;
  EXPECT_EQ(store_->Update("a", update).value(), want);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(1));
}

TEST_F(SessionStoreTest, WrongFieldsAreNamedAndCostNobodyAnything) {
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE(RunTurn(*store_, id, 1, 1).ok());
  const auto field = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return DetailsOf(status).metadata["field"];
  };
  SessionStore::CreateOptions create;
  create.id = "no spaces";
  EXPECT_EQ(field(store_->Create(create).status()), "id");
  create = {};
  create.labels = {{"", ""}};
  EXPECT_EQ(field(store_->Create(create).status()), "labels");
  create = {};
  create.ttl = absl::ZeroDuration();
  EXPECT_EQ(field(store_->Create(create).status()), "ttl");
  EXPECT_EQ(field(store_->Begin(Creating("-")).status()), "id");
  EXPECT_EQ(field(store_->Begin(Existing("")).status()), "id");
  SessionStore::BeginOptions begin = Creating("e");
  begin.ttl = -absl::Seconds(1);
  EXPECT_EQ(field(store_->Begin(begin).status()), "ttl");
  begin = Creating("e");
  begin.expected_position = 3;
  EXPECT_TRUE(absl::IsAborted(store_->Begin(begin).status()));
  SessionStore::UpdateOptions update;
  update.labels = std::map<std::string, std::string>{{"k", "\xff"}};
  EXPECT_EQ(field(store_->Update("a", update).status()), "labels");
  update = {};
  update.ttl.emplace(absl::ZeroDuration());
  EXPECT_EQ(field(store_->Update("a", update).status()), "ttl");
  EXPECT_EQ(store_->stats().sessions, 4);
  EXPECT_EQ(store_->stats().evictions, 0);
}

TEST_F(SessionStoreTest, StatsCount) {
  EXPECT_GE(store_->stats().capacity, 4);
  EXPECT_EQ(store_->stats().tiers[0].tier, "memory");
  ASSERT_TRUE(RunTurn(*store_, "a", 10, 1).ok());
  ASSERT_TRUE(RunTurn(*store_, "b", 5, 1).ok());
  ASSERT_TRUE(RunTurn(*store_, "a", 30, 1).ok());
  const int64_t two = store_->stats().tiers[0].usage.bytes;
  EXPECT_GE(two, 2 * kTestStateBytes);
  EXPECT_LT(two, 2 * kTestStateBytes * 101 / 100);
  {
    SessionStore::Lease creating = MustBegin(*store_, "c");
    EXPECT_EQ(store_->stats().sessions, 2);
    EXPECT_GE(store_->stats().tiers[0].usage.bytes, 3 * kTestStateBytes);
    EXPECT_EQ(store_->stats().positions, 35);
  }
  EXPECT_EQ(store_->stats().tiers[0].usage.bytes, two);
  EXPECT_EQ(store_->stats().tiers[0].sessions, 2);
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(store_->stats().positions, 5);
  EXPECT_EQ(store_->stats().sessions, 1);
  EXPECT_EQ(store_->stats().tiers[0].usage.states, 1);
}

}  // namespace
}  // namespace fermata
