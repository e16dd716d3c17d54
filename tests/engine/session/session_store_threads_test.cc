#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 4000;
constexpr int kIds = 24;
constexpr int64_t kCapacity = 8;  // More than can be in turns at once, fewer than there are ids.
constexpr size_t kWords = 4096;
constexpr std::chrono::milliseconds kMostTtl{3};

// What a session's state holds all over: its own name and position, so that a state of another
// session, of another moment or of two moments shows.
uint64_t Marker(int id, int64_t position) {
  return position == 0 ? 0 : (static_cast<uint64_t>(id + 1) << 48) + position;
}

std::string Name(int id) { return "s" + std::to_string(id); }

class ThreadsTest : public testing::Test {
 protected:
  ThreadsTest() {
    SessionStoreOptions options;
    options.state_bytes = kWords * sizeof(uint64_t);
    options.memory_bytes = kCapacity * (options.state_bytes + MemoryTier::kHeadRoom);
    store_ = std::make_unique<SessionStore>(options);
  }

  void Turn(int id, std::mt19937& random) {
    SessionStore::BeginOptions options = Creating(Name(id));
    if (random() % 4 == 0) options.ttl = absl::Milliseconds(1 + random() % kMostTtl.count());
    absl::StatusOr<SessionStore::Lease> lease = store_->Begin(options);
    if (!lease.ok()) {
      ASSERT_EQ(Reason(lease.status()), "ABORTED SESSION_BUSY");
      return;
    }
    ASSERT_TRUE(lease->Fetch().ok());
    SessionRecord record = lease->record();
    ASSERT_EQ(record.id, Name(id));
    ASSERT_TRUE(record.position == 0 || record.position == last_[id]) << "a commit was lost";
    ASSERT_EQ(record.sampler_memory, record.position == 0 ? "" : std::to_string(record.position));
    std::vector<uint64_t> state(kWords, 1);
    ASSERT_TRUE(lease->ReadState(std::as_writable_bytes(std::span(state))).ok());
    for (const uint64_t word : state) ASSERT_EQ(word, Marker(id, record.position));
    if (random() % 4 == 0) return;  // The turn fails.
    record.position = ++positions_;
    record.pending_token = id;
    record.sampler_memory = std::to_string(record.position);
    state.assign(kWords, Marker(id, record.position));
    last_[id] = record.position;
    lease->Commit(record, std::as_bytes(std::span(state)),
                  [](const absl::StatusOr<SessionRecord>& result) { ASSERT_TRUE(result.ok()); });
    ++commits_;
  }

  void Look(int id) {
    const absl::StatusOr<SessionRecord> record = store_->Get(Name(id));
    if (!record.ok()) {
      ASSERT_TRUE(absl::IsNotFound(record.status())) << record.status();
      return;
    }
    ASSERT_EQ(record->id, Name(id));
    if (record->position > 0) {
      ASSERT_EQ(record->sampler_memory, std::to_string(record->position));
      ASSERT_EQ(record->pending_token, id);
    }
  }

  void List() {
    SessionStore::ListOptions options;
    options.page_size = 3;
    std::string last;
    do {
      const auto page = store_->List(options);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const SessionRecord& record : page->sessions) {
        ASSERT_LT(last, record.id);
        last = record.id;
      }
      options.page_token = page->next_page_token;
    } while (!options.page_token.empty());
  }

  void Step(std::mt19937& random) {
    const int id = random() % kIds;
    switch (random() % 16) {
      case 0: {
        const absl::Status status = store_->Delete(Name(id));
        ASSERT_TRUE(status.ok() || absl::IsNotFound(status) || absl::IsAborted(status));
        break;
      }
      case 1: {
        SessionStore::UpdateOptions update;
        update.labels =
            std::map<std::string, std::string>{{"label", std::string(random() % 200, 'l')}};
        const absl::Status status = store_->Update(Name(id), update).status();
        ASSERT_TRUE(status.ok() || absl::IsNotFound(status) || absl::IsAborted(status)) << status;
        break;
      }
      case 2: {
        SessionStore::CreateOptions create;
        create.id = Name(id);
        const absl::Status status = store_->Create(create).status();
        ASSERT_TRUE(status.ok() || absl::IsAlreadyExists(status) || absl::IsAborted(status))
            << status;
        break;
      }
      case 3:
        List();
        break;
      case 4:
        store_->DropExpired();
        break;
      case 5: {
        const SessionStoreStats stats = store_->stats();
        ASSERT_LE(stats.tiers[0].usage.bytes, stats.tiers[0].usage.limit_bytes);
        break;
      }
      case 6:
      case 7:
        Look(id);
        break;
      default:
        Turn(id, random);
    }
  }

  std::unique_ptr<SessionStore> store_;
  std::atomic<int64_t> positions_ = 0;
  std::atomic<int64_t> commits_ = 0;
  std::atomic<int64_t> last_[kIds] = {};  // Written within the session's turn.
};

TEST_F(ThreadsTest, NothingCrossesAndNothingTears) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kSteps && !HasFatalFailure(); ++i) Step(random);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (HasFatalFailure()) return;

  EXPECT_GT(commits_, kThreads * kSteps / 8);
  EXPECT_GT(store_->stats().evictions, 100);
  // Until every time to live has passed: none may pass between the two that are compared.
  std::this_thread::sleep_for(kMostTtl + std::chrono::milliseconds(1));
  store_->DropExpired();
  const SessionStore::Page page = store_->List({}).value();
  const SessionStoreStats stats = store_->stats();
  int64_t positions = 0;
  for (const SessionRecord& record : page.sessions) positions += record.position;
  EXPECT_EQ(stats.positions, positions);
  EXPECT_EQ(stats.sessions, static_cast<int64_t>(page.sessions.size()));
  EXPECT_EQ(stats.tiers[0].usage.snapshots, stats.sessions);
  EXPECT_EQ(stats.tiers[0].usage.states, stats.sessions);
}

}  // namespace
}  // namespace fermata
