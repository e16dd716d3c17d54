#include "engine/scheduler/queue.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kAgeing = absl::Seconds(5);
const Clock::time_point kStart = Clock::time_point() + std::chrono::hours(1);

Clock::time_point At(double seconds) {
  return kStart + absl::ToChronoNanoseconds(absl::Seconds(seconds));
}

// Entries without jobs: the queue does not look at them. `name` stands in prompt_tokens.
Queue::Entry Entry(int64_t name, std::string tenant = "", int priority = 0, double arrival = 0) {
  return {.job = nullptr,
          .claim = {.priority = priority, .tenant = std::move(tenant)},
          .prompt_tokens = name,
          .arrival = At(arrival)};
}

std::vector<int64_t> PopAll(Queue& queue, double now = 1) {
  std::vector<int64_t> names;
  while (!queue.empty()) names.push_back(queue.Pop(At(now)).prompt_tokens);
  return names;
}

TEST(QueueTest, FirstComeFirstServedAmongEquals) {
  Queue queue(kAgeing);
  for (int i = 1; i <= 5; ++i) queue.Push(Entry(i, "t", 0, 0.1 * i));
  EXPECT_THAT(PopAll(queue), ElementsAre(1, 2, 3, 4, 5));
}

TEST(QueueTest, HigherPriorityFirst) {
  Queue queue(kAgeing);
  queue.Push(Entry(1, "", -10));
  queue.Push(Entry(2, "", 0));
  queue.Push(Entry(3, "", 10));
  queue.Push(Entry(4, "", 1));
  queue.Push(Entry(5, "", 10));
  EXPECT_THAT(PopAll(queue), ElementsAre(3, 5, 4, 2, 1));
}

TEST(QueueTest, PriorityBeforeTenants) {
  Queue queue(kAgeing);
  queue.Push(Entry(1, "light", 0));
  queue.Push(Entry(2, "heavy", 1));
  queue.Charge("heavy", 1000000);
  EXPECT_THAT(PopAll(queue), ElementsAre(2, 1));
}

TEST(QueueTest, WaitingRaisesTheLevel) {
  Queue queue(kAgeing);
  queue.Push(Entry(1, "", 0, 0));
  queue.Push(Entry(2, "", 2, 5.5));
  queue.Push(Entry(3, "", 2, 12));
  // At 12 s the first has risen by 2, the second by 1.
  EXPECT_THAT(PopAll(queue, 12), ElementsAre(2, 1, 3));
}

// The bound that queue.h states, under a stream that always has something of a higher priority: the
// last that passes comes less than (q - p + 1) * ageing later.
TEST(QueueTest, NoStreamStarvesALowPriority) {
  for (const auto& [low, high] : {std::pair{-10, 10}, {0, 1}, {0, 0}}) {
    Queue queue(kAgeing);
    queue.Push(Entry(1, "poor", low, 0));
    queue.Charge("poor", 1 << 20);  // And on the account of one who has had more than all others.
    double served_at = -1;
    for (double now = 0.5; now < 1000 && served_at < 0; now += 0.5) {
      // Ever new tenants, whom nobody has served yet.
      queue.Push(Entry(2, "rich" + std::to_string(now), high, now));
      queue.Push(Entry(2, "rich" + std::to_string(now), high, now));
      // Two come for each that goes, so that there is always a fresh one.
      if (queue.Pop(At(now)).prompt_tokens == 1) served_at = now;
    }
    const double passing = (high - low + 1) * 5.0;
    ASSERT_GT(served_at, 0) << "starved";
    // Those that may pass came in that time, two each half second, and one goes each half second.
    EXPECT_LE(served_at, 2 * passing + 1);
    EXPECT_GE(served_at, (high - low) * 5.0 - 1);
  }
}

TEST(QueueTest, TwoTenantsShareEvenlyWhateverTheyAskFor) {
  Queue queue(kAgeing);
  for (int i = 0; i < 200; ++i) queue.Push(Entry(10, "many", 0, 0));
  for (int i = 0; i < 20; ++i) queue.Push(Entry(10, "few", 0, 0.5));
  std::map<std::string, int> admitted;
  for (int i = 0; i < 40; ++i) ++admitted[queue.Pop(At(1)).claim.tenant];
  EXPECT_EQ(admitted["many"], 20);
  EXPECT_EQ(admitted["few"], 20);
}

TEST(QueueTest, ServiceIsCountedInTokens) {
  Queue queue(kAgeing);
  for (int i = 0; i < 300; ++i) {
    queue.Push(Entry(100, "long"));
    queue.Push(Entry(10, "short"));
  }
  std::map<std::string, int> admitted;
  for (int i = 0; i < 220; ++i) ++admitted[queue.Pop(At(1)).claim.tenant];
  EXPECT_NEAR(admitted["long"], 20, 1);
  EXPECT_NEAR(admitted["short"], 200, 1);

  // Tokens that are sampled count as well.
  queue.Charge("short", 1000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(queue.Pop(At(1)).claim.tenant, "long");
}

TEST(QueueTest, AnIdleTenantDoesNotHoard) {
  Queue queue(kAgeing);
  queue.Push(Entry(10, "late"));
  for (int i = 0; i < 200; ++i) queue.Push(Entry(10, "busy"));
  for (int i = 0; i < 101; ++i) queue.Pop(At(1));
  // "late" has had a hundredth of what "busy" has, but from here on they take turns.
  for (int i = 0; i < 50; ++i) queue.Push(Entry(10, "late"));
  std::map<std::string, int> admitted;
  for (int i = 0; i < 40; ++i) ++admitted[queue.Pop(At(1)).claim.tenant];
  EXPECT_NEAR(admitted["busy"], 20, 1);
}

// One that asks for one thing at a time is remembered in between.
TEST(QueueTest, AShortAbsenceClearsNoAccount) {
  Queue queue(kAgeing);
  for (int i = 0; i < 1000; ++i) queue.Push(Entry(10, "busy"));
  int64_t single = 0;
  for (int i = 0; i < 100; ++i) {
    bool waits = false;
    for (const auto& entry : queue.entries()) waits |= entry.claim.tenant == "single";
    if (!waits) queue.Push(Entry(100, "single"));
    if (queue.Pop(At(1)).claim.tenant == "single") ++single;
  }
  EXPECT_NEAR(single, 9, 1) << "100 tokens for every ten of 10";
}

TEST(QueueTest, RemovedEntriesAreGone) {
  Queue queue(kAgeing);
  for (int i = 1; i <= 6; ++i) queue.Push(Entry(i));
  queue.RemoveIf([](const Queue::Entry& entry) { return entry.prompt_tokens % 2 == 0; });
  EXPECT_THAT(PopAll(queue), ElementsAre(1, 3, 5));
}

TEST(QueueTest, RemembersABoundedNumberOfTenants) {
  Queue queue(kAgeing);
  queue.Push(Entry(1, "waits", -10, 0));
  for (int i = 0; i < 50000; ++i) {
    const std::string name = "tenant " + std::to_string(i);
    queue.Push(Entry(5, name));
    EXPECT_EQ(queue.Pop(At(1)).claim.tenant, name);
    queue.Charge(name, 100);
    ASSERT_LE(queue.num_tenants(), Queue::kMaxIdleTenants + 2);
  }
  EXPECT_THAT(PopAll(queue), ElementsAre(1));
}

}  // namespace
}  // namespace fermata
