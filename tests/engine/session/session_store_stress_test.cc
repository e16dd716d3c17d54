// Many threads on sessions that do not fit into memory, over a real disk.

#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include <unistd.h>

#include "engine/session/disk_tier.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

constexpr size_t kWords = 8192;

// What the state after `position` holds all over, so that one of another moment or of two shows.
// Every commit has a position of its own.
uint64_t Marker(int64_t position) {
  return position == 0 ? 0 : static_cast<uint64_t>(position) * 0x9E3779B97F4A7C15u;
}

class StressTest : public testing::Test {
 protected:
  StressTest() { std::filesystem::remove_all(directory_); }
  ~StressTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Start(int64_t slots) {
    store_.reset();
    DiskTier::Options disk;
    disk.directory = directory_;
    disk.state_bytes = kWords * sizeof(uint64_t);
    absl::StatusOr<DiskTier::Opened> opened = DiskTier::Open(disk);
    ASSERT_TRUE(opened.ok()) << opened.status();
    SessionStoreOptions options;
    options.state_bytes = kWords * sizeof(uint64_t);
    options.memory_bytes = slots * (options.state_bytes + 2 * MemoryTier::kHeadRoom);
    store_ = std::make_unique<SessionStore>(options, *std::move(opened));
  }

  // A turn on a session, which must be what its position says; where it ended. 0: it was not
  // possible now.
  int64_t Turn(const std::string& id, Durability durability, bool commit = true) {
    SessionStore::BeginOptions options = Creating(id);
    options.durability = durability;
    absl::StatusOr<SessionStore::Lease> lease = store_->Begin(options);
    const absl::Status begun = lease.ok() ? lease->Fetch() : lease.status();
    if (!begun.ok()) {
      EXPECT_TRUE(absl::IsAborted(begun) || absl::IsResourceExhausted(begun)) << begun;
      return 0;
    }
    SessionRecord record = lease->record();
    EXPECT_EQ(record.id, id);
    std::vector<uint64_t> state(kWords, 1);
    const absl::Status read = lease->ReadState(std::as_writable_bytes(std::span(state)));
    EXPECT_TRUE(read.ok()) << read;
    EXPECT_EQ(state, std::vector<uint64_t>(kWords, Marker(record.position))) << id;
    if (!commit) return 0;
    record.position = ++positions_;
    record.pending_token = 1;
    state.assign(kWords, Marker(record.position));
    std::promise<absl::Status> committed;
    lease->Commit(record, std::as_bytes(std::span(state)),
                  [&committed](const absl::StatusOr<SessionRecord>& result) {
                    committed.set_value(result.status());
                  });
    const absl::Status done = committed.get_future().get();
    EXPECT_TRUE(done.ok()) << done;
    return record.position;
  }

  void Step(std::mt19937& random) {
    const auto name = [&random] { return "s" + std::to_string(random() % 24); };
    const auto may_be = [](const absl::Status& status) {
      EXPECT_TRUE(status.ok() || absl::IsNotFound(status) || absl::IsAborted(status) ||
                  absl::IsAlreadyExists(status) || absl::IsResourceExhausted(status))
          << status;
    };
    switch (random() % 16) {
      case 0:
        return may_be(store_->Delete(name()));
      case 1: {
        SessionStore::UpdateOptions update;
        update.labels = std::map<std::string, std::string>{{"l", std::string(random() % 200, 'l')}};
        update.max_checkpoints = random() % 3;
        return may_be(store_->Update(name(), update).status());
      }
      case 2:
      case 3:
        return may_be(store_->Fork(name(), {.target = {.id = name()}}).status());
      case 4:
        return may_be(
            store_->Fork(name(), {.target = {.id = name()}, .place = {.before_last_turn = true}})
                .status());
      case 5:
        return may_be(store_->Rewind(name(), {.before_last_turn = true}).status());
      case 6: {
        const auto exported = store_->Export(name(), {});
        may_be(exported.status());
        if (!exported.ok()) return;
        uint64_t word;
        std::memcpy(&word, exported->state.data() + 8 * (random() % kWords), sizeof(word));
        EXPECT_EQ(word, Marker(exported->record.position));
        return;
      }
      case 7: {
        const auto page = store_->List({.page_size = 5});
        EXPECT_TRUE(page.ok()) << page.status();
        return;
      }
      case 8:
        return may_be(store_->Get(name()).status());
      case 9:
        Turn(name(), Durability::kDisk);
        return;
      default:
        Turn(name(), Durability::kMemory, /*commit=*/random() % 4 != 0);
    }
  }

  const std::string directory_ = testing::TempDir() + "/stress." + std::to_string(getpid());
  std::atomic<int64_t> positions_ = 0;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(StressTest, NothingCrossesAndNothingTears) {
  constexpr int kThreads = 4;
  Start(/*slots=*/8);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 300 && !HasFailure(); ++i) Step(random);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SessionStoreStats stats = store_->stats();
  EXPECT_LE(stats.tiers[0].usage.bytes, stats.tiers[0].usage.limit_bytes);
  EXPECT_EQ(stats.damaged, 0);
  ASSERT_TRUE(store_->Flush().ok());

  // All is as it was in the store's next life.
  const SessionStore::Page before = store_->List({.page_size = 1000}).value();
  EXPECT_EQ(stats.sessions, static_cast<int64_t>(before.sessions.size()));
  Start(/*slots=*/8);
  const SessionStore::Page after = store_->List({.page_size = 1000}).value();
  EXPECT_EQ(before.sessions, after.sessions);
  EXPECT_EQ(store_->stats().positions, stats.positions);
  EXPECT_EQ(store_->stats().checkpoint_bytes, stats.checkpoint_bytes);
  for (const SessionRecord& record : after.sessions) Turn(record.id, Durability::kMemory);
}

// Each thread knows where its own sessions stand; all of them go through few slots.
TEST_F(StressTest, SixtyFourStoriesThroughFewSlots) {
  constexpr int kThreads = 64;
  constexpr int kEach = 3;
  Start(/*slots=*/24);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      int64_t stands[kEach] = {};
      for (int turn = 0; turn < 4 * kEach; ++turn) {
        const int own = turn % kEach;
        const std::string id = "t" + std::to_string(t) + "." + std::to_string(own);
        if (stands[own] > 0) {
          const auto record = store_->Get(id);
          ASSERT_TRUE(record.ok()) << record.status();
          ASSERT_EQ(record->position, stands[own]);
        }
        // Others may have every slot in turns.
        int64_t at = 0;
        while (at == 0 && !HasFailure()) {
          at = Turn(id, turn % 5 == 0 ? Durability::kDisk : Durability::kMemory);
          if (at == 0) std::this_thread::yield();
        }
        stands[own] = at;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SessionStoreStats stats = store_->stats();
  EXPECT_EQ(stats.sessions, kThreads * kEach);
  EXPECT_EQ(stats.evictions, 0);
  EXPECT_GT(stats.moves_up_turn, kThreads);
  EXPECT_GT(stats.moves_down_pressure, kThreads);
}

}  // namespace
}  // namespace fermata
