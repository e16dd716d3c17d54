// Sessions on a real disk, from one life of the store to the next.

#include <filesystem>

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/session/disk_tier.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class RestartTest : public testing::Test {
 protected:
  RestartTest() {
    std::filesystem::remove_all(directory_);
    Start();
  }
  ~RestartTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start(int64_t quota_bytes = 0) {
    store_.reset();
    DiskTier::Options disk;
    disk.directory = directory_;
    disk.state_bytes = kTestStateBytes;
    disk.model_fingerprint = "f00d";
    disk.quota_bytes = quota_bytes;
    absl::StatusOr<DiskTier::Opened> opened = DiskTier::Open(disk);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->remarks.empty());
    store_ = std::make_unique<SessionStore>(SmallStoreOptions(3, clock_), *std::move(opened));
  }
  void Create(const std::string& id, Durability durability, int32_t max_checkpoints = 0) {
    SessionStore::CreateOptions options;
    options.id = id;
    options.durability = durability;
    options.max_checkpoints = max_checkpoints;
    ASSERT_TRUE(store_->Create(options).ok());
  }
  absl::Status Turn(const std::string& id, int64_t position, uint8_t fill) {
    return RunTurn(*store_, id, position, fill).status();
  }
  int64_t Files() const {
    int64_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (entry.path().extension() == ".snap" || entry.path().extension() == ".state") ++files;
    }
    return files;
  }

  FakeClock clock_;
  const std::string directory_ = testing::TempDir() + "/restart." + std::to_string(getpid());
  std::unique_ptr<SessionStore> store_;
};

TEST_F(RestartTest, WhatIsDurableIsThereAgain) {
  Create("disk", Durability::kDisk, 2);
  for (int turn = 1; turn <= 3; ++turn) ASSERT_TRUE(Turn("disk", 10 * turn, turn).ok());
  ASSERT_TRUE(store_->Fork("disk", {.target = {.id = "fork"}, .place = {.turns = 2}}).ok());
  Create("memory", Durability::kMemory);
  ASSERT_TRUE(Turn("memory", 10, 7).ok());
  const SessionRecord disk = store_->Get("disk").value();
  const SessionRecord fork = store_->Get("fork").value();
  Start();
  EXPECT_EQ(store_->stats().sessions, 2);
  EXPECT_EQ(store_->stats().positions, 50);
  EXPECT_EQ(store_->stats().checkpoints, 2);
  EXPECT_EQ(store_->Get("disk").value(), disk);
  EXPECT_EQ(store_->Get("fork").value(), fork);
  EXPECT_EQ(Reason(store_->Get("memory").status()), "NOT_FOUND SESSION_NOT_FOUND");
  EXPECT_EQ(StateOf(*store_, "disk"), Filled(3));
  EXPECT_EQ(StateOf(*store_, "fork"), Filled(2));
  ASSERT_TRUE(Turn("disk", 40, 4).ok());
  EXPECT_EQ(store_->Rewind("disk", {.turns = 2})->position, 20);
  EXPECT_EQ(StateOf(*store_, "disk"), Filled(2));
  ASSERT_TRUE(store_->Delete("disk").ok());
  ASSERT_TRUE(store_->Delete("fork").ok());
  ASSERT_TRUE(store_->Flush().ok());  // For what was superseded to be gone, too.
  EXPECT_EQ(Files(), 0);
}

TEST_F(RestartTest, FlushedIsThereAgain) {
  Create("a", Durability::kMemory, 3);
  for (int turn = 1; turn <= 3; ++turn) ASSERT_TRUE(Turn("a", 10 * turn, turn).ok());
  const SessionRecord record = store_->Get("a").value();
  ASSERT_TRUE(store_->Flush().ok());
  Start();
  EXPECT_EQ(store_->Get("a").value(), record);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(3));
  EXPECT_EQ(store_->Rewind("a", {.turns = 1})->position, 10);
}

// A session that is durable in memory only comes back at the boundary that was last below.
TEST_F(RestartTest, AnEarlierBoundaryWhereTheNewestWasInMemory) {
  Create("a", Durability::kMemory, 2);
  for (int turn = 1; turn <= 3; ++turn) ASSERT_TRUE(Turn("a", 10 * turn, turn).ok());
  ASSERT_TRUE(store_->Flush().ok());
  for (int turn = 4; turn <= 9; ++turn) ASSERT_TRUE(Turn("a", 10 * turn, turn).ok());
  Start();
  const SessionRecord record = store_->Get("a").value();
  EXPECT_GE(record.position, 30);
  EXPECT_EQ(StateOf(*store_, "a"), Filled(record.position / 10));
  EXPECT_LE(record.checkpoints.size(), 2u);
  ASSERT_TRUE(Turn("a", 100, 100).ok());
}

TEST_F(RestartTest, ExpiredOnesAreDropped) {
  ASSERT_TRUE(
      store_->Create({.id = "brief", .ttl = absl::Seconds(5), .durability = Durability::kDisk})
          .ok());
  Create("stays", Durability::kDisk);
  clock_.Advance(absl::Seconds(6));
  Start();
  EXPECT_EQ(store_->stats().sessions, 1);
  EXPECT_EQ(Reason(store_->Get("brief").status()), "NOT_FOUND SESSION_EXPIRED");
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Files(), 1);
}

TEST_F(RestartTest, PinnedOnesStayPinned) {
  Create("template", Durability::kDisk);
  ASSERT_TRUE(Turn("template", 10, 1).ok());
  SessionStore::UpdateOptions update;
  update.pinned = true;
  update.ttl.emplace(absl::Seconds(1));
  ASSERT_TRUE(store_->Update("template", update).ok());
  clock_.Advance(absl::Hours(1));
  Start();
  EXPECT_EQ(Reason(store_->Delete("template")), "FAILED_PRECONDITION SESSION_PINNED");
  ASSERT_TRUE(store_->Fork("template", {.target = {.id = "child"}}).ok());
  EXPECT_EQ(StateOf(*store_, "child"), Filled(1));
}

TEST_F(RestartTest, AQuotaRefusesAndIsFreedByDeletion) {
  Start(/*quota_bytes=*/4 * kTestStateBytes);
  int created = 0;
  absl::Status status;
  while (created < 10 && status.ok()) {
    status = store_->Create({.id = "s" + std::to_string(created), .durability = Durability::kDisk})
                 .status();
    if (status.ok()) ++created;
  }
  EXPECT_EQ(Reason(status), "RESOURCE_EXHAUSTED DISK_FULL");
  EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
  EXPECT_EQ(created, 3);
  EXPECT_EQ(store_->stats().sessions, 3);
  ASSERT_TRUE(store_->Delete("s0").ok());
  EXPECT_TRUE(store_->Create({.id = "again", .durability = Durability::kDisk}).ok());
  // A commit needs the room of one more state; what it superseded is given back before the next.
  ASSERT_TRUE(store_->Delete("again").ok());
  for (int turn = 1; turn <= 20; ++turn) ASSERT_TRUE(Turn("s1", turn, turn).ok());
}

TEST_F(RestartTest, ManyAreListedInPagesWithoutComingUp) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(Turn("s" + std::to_string(100 + i), 1, i).ok());
  }
  ASSERT_TRUE(store_->Flush().ok());
  Start();
  SessionStore::ListOptions options;
  options.page_size = 7;
  std::vector<std::string> ids;
  do {
    const SessionStore::Page page = store_->List(options).value();
    for (const SessionRecord& record : page.sessions) ids.push_back(record.id);
    options.page_token = page.next_page_token;
  } while (!options.page_token.empty());
  ASSERT_EQ(ids.size(), 30u);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(ids[i], "s" + std::to_string(100 + i));
  EXPECT_EQ(store_->stats().moves_up_turn, 0);
  EXPECT_EQ(store_->stats().tiers[0].usage.bytes, 0);
}

}  // namespace
}  // namespace fermata
