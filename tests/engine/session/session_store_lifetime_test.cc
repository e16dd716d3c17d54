// What goes when there is no room, and what goes when its time is over.

#include "engine/base/error.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class SessionLifetimeTest : public testing::Test {
 protected:
  // Whether `id` is there, without using it.
  bool Lives(const std::string& id) { return store_->Get(id).ok(); }

  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ = SmallStore(3, clock_);
};

TEST_F(SessionLifetimeTest, TheOneUsedLongestAgoGoesFirst) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(RunTurn(*store_, id, 1, 1).ok());
  ASSERT_TRUE(RunTurn(*store_, "d", 1, 1).ok());
  EXPECT_EQ(Reason(store_->Get("a").status()), "NOT_FOUND SESSION_EXPIRED");
  ASSERT_TRUE(RunTurn(*store_, "e", 1, 1).ok());
  EXPECT_FALSE(Lives("b"));
  EXPECT_TRUE(Lives("c") && Lives("d") && Lives("e"));
  EXPECT_EQ(store_->stats().evictions, 2);
  EXPECT_EQ(store_->stats().expirations, 0);
  EXPECT_EQ(store_->stats().sessions, 3);
}

TEST_F(SessionLifetimeTest, TurnsAndUpdatesAreUsesAndLooksAreNot) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(RunTurn(*store_, id, 1, 1).ok());
  MustBegin(*store_, "a");  // Not committed, and yet used.
  ASSERT_TRUE(store_->Update("b", {}).ok());
  ASSERT_TRUE(Lives("c"));
  ASSERT_EQ(store_->List({})->sessions.size(), 3u);
  ASSERT_TRUE(store_->Create({}).ok());
  EXPECT_FALSE(Lives("c"));
  ASSERT_TRUE(store_->Create({}).ok());
  EXPECT_FALSE(Lives("a"));
  EXPECT_TRUE(Lives("b"));
}

TEST_F(SessionLifetimeTest, ASessionInATurnStays) {
  ASSERT_TRUE(RunTurn(*store_, "a", 1, 1).ok());
  SessionStore::Lease a = MustBegin(*store_, "a");
  SessionStore::Lease b = MustBegin(*store_, "b");
  ASSERT_TRUE(RunTurn(*store_, "c", 1, 1).ok());
  ASSERT_TRUE(RunTurn(*store_, "d", 1, 1).ok());
  EXPECT_FALSE(Lives("c"));
  SessionStore::Lease d = MustBegin(*store_, "d");

  for (const absl::Status& status :
       {store_->Begin(Creating("e"))->Fetch(), store_->Create({}).status()}) {
    EXPECT_EQ(Reason(status), "RESOURCE_EXHAUSTED SESSION_MEMORY_EXHAUSTED");
    EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
  }
  EXPECT_EQ(store_->stats().evictions, 1);

  // Room was set aside when the turns began: all of them commit.
  for (SessionStore::Lease* lease : {&a, &b, &d}) {
    SessionRecord record = lease->record();
    record.position = 50;
    record.pending_token = 1;
    record.sampler_memory = std::string(kMaxSamplerMemoryBytes, 'm');
    EXPECT_TRUE(CommitTurn(*lease, record, Filled(0)).ok());
  }
  EXPECT_EQ(store_->stats().positions, 150);
  EXPECT_TRUE(RunTurn(*store_, "e", 1, 1).ok());
}

TEST_F(SessionLifetimeTest, AnEvictedSessionsNameStartsFromNothing) {
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE(RunTurn(*store_, id, 1, 0xAA).ok());
  EXPECT_EQ(Reason(store_->Begin(Existing("a")).status()), "NOT_FOUND SESSION_EXPIRED");
  EXPECT_EQ(StateOf(*store_, "a"), Filled(0));
  ASSERT_TRUE(RunTurn(*store_, "a", 1, 1).ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(Reason(store_->Get("a").status()), "NOT_FOUND SESSION_NOT_FOUND");
}

TEST_F(SessionLifetimeTest, ExpiresAfterItsTimeToLive) {
  SessionStore::CreateOptions options;
  options.id = "a";
  options.ttl = absl::Seconds(10);
  ASSERT_TRUE(store_->Create(options).ok());
  clock_.Advance(absl::Seconds(9));
  ASSERT_TRUE(RunTurn(*store_, "a", 1, 1).ok());  // The commit starts it anew.
  clock_.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_TRUE(Lives("a"));
  EXPECT_EQ(store_->List({})->sessions.size(), 1u);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(store_->List({})->sessions.empty());
  for (const absl::Status& status :
       {store_->Get("a").status(), store_->Begin(Existing("a")).status(), store_->Delete("a"),
        store_->Update("a", {}).status()}) {
    EXPECT_EQ(Reason(status), "NOT_FOUND SESSION_EXPIRED");
  }
  EXPECT_EQ(store_->stats().expirations, 1);
  EXPECT_EQ(store_->stats().evictions, 0);
  EXPECT_EQ(store_->stats().tiers[0].usage.bytes, 0);
}

TEST_F(SessionLifetimeTest, LookingDoesNotKeepAlive) {
  SessionStore::CreateOptions options;
  options.id = "a";
  options.ttl = absl::Seconds(10);
  ASSERT_TRUE(store_->Create(options).ok());
  for (int i = 0; i < 9; ++i) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(Lives("a"));
    EXPECT_EQ(store_->List({})->sessions.size(), 1u);
  }
  MustBegin(*store_, "a");  // A turn that fails leaves the session as it was, its end too.
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Lives("a"));
}

TEST_F(SessionLifetimeTest, NeverInATurn) {
  SessionStore::BeginOptions options = Creating("a");
  options.ttl = absl::Seconds(10);
  {
    SessionStore::Lease lease = store_->Begin(options).value();
    ASSERT_TRUE(lease.Fetch().ok());
    EXPECT_EQ(CommitTurn(lease, {}, Filled(0))->ttl, absl::Seconds(10));
  }
  {
    SessionStore::Lease lease = MustBegin(*store_, "a");
    clock_.Advance(absl::Hours(1));
    store_->DropExpired();
    EXPECT_TRUE(Lives("a"));
    EXPECT_EQ(store_->List({})->sessions.size(), 1u);
    EXPECT_EQ(CommitTurn(lease, lease.record(), Filled(0))->ttl, absl::Seconds(10));
  }
  EXPECT_TRUE(Lives("a"));
  {
    SessionStore::Lease lease = MustBegin(*store_, "a");
    clock_.Advance(absl::Hours(1));
  }
  EXPECT_FALSE(Lives("a"));
}

TEST_F(SessionLifetimeTest, DropExpiredDropsThoseAndNoOthers) {
  for (const int seconds : {30, 10, 20}) {
    SessionStore::CreateOptions options;
    options.id = "s" + std::to_string(seconds);
    options.ttl = absl::Seconds(seconds);
    ASSERT_TRUE(store_->Create(options).ok());
  }
  clock_.Advance(absl::Seconds(20));
  store_->DropExpired();
  EXPECT_EQ(store_->stats().sessions, 1);
  EXPECT_EQ(store_->stats().expirations, 2);
  EXPECT_TRUE(Lives("s30"));
}

TEST_F(SessionLifetimeTest, TheExpiredGoBeforeAnyIsEvicted) {
  ASSERT_TRUE(RunTurn(*store_, "oldest", 1, 1).ok());
  SessionStore::CreateOptions options;
  options.id = "brief";
  options.ttl = absl::Seconds(1);
  ASSERT_TRUE(store_->Create(options).ok());
  ASSERT_TRUE(RunTurn(*store_, "c", 1, 1).ok());
  clock_.Advance(absl::Seconds(2));
  ASSERT_TRUE(RunTurn(*store_, "d", 1, 1).ok());
  EXPECT_TRUE(Lives("oldest"));
  EXPECT_EQ(store_->stats().evictions, 0);
  EXPECT_EQ(store_->stats().expirations, 1);
}

TEST_F(SessionLifetimeTest, DefaultUpdateAndTurnSetTheTimeToLive) {
  SessionStoreOptions store_options = SmallStoreOptions(3, clock_);
  store_options.default_ttl = absl::Seconds(10);
  store_ = std::make_unique<SessionStore>(store_options);
  SessionStore::CreateOptions options;
  options.id = "a";
  EXPECT_EQ(store_->Create(options)->ttl, absl::Seconds(10));
  SessionStore::UpdateOptions update;
  update.ttl.emplace(absl::Seconds(100));
  EXPECT_EQ(store_->Update("a", update)->ttl, absl::Seconds(100));
  clock_.Advance(absl::Seconds(99));
  EXPECT_TRUE(Lives("a"));
  SessionStore::BeginOptions begin = Existing("a");
  begin.ttl = absl::Seconds(1);
  SessionStore::Lease lease = store_->Begin(begin).value();
  ASSERT_TRUE(lease.Fetch().ok());
  EXPECT_EQ(lease.record().ttl, absl::Seconds(100));
  EXPECT_EQ(CommitTurn(lease, lease.record(), Filled(0))->ttl, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Lives("a"));
  EXPECT_EQ(MustBegin(*store_, "a").record().ttl, absl::Seconds(10));
}

}  // namespace
}  // namespace fermata
