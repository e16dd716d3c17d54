#include "engine/base/parallel.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

class ParallelTest : public testing::Test {
 protected:
  ~ParallelTest() override { SetComputeThreads(threads_); }

 private:
  const int threads_ = ComputeThreads();
};

TEST_F(ParallelTest, CoversEachIndexOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    SetComputeThreads(threads, 1);
    EXPECT_EQ(ComputeThreads(), threads);
    for (const int64_t count : {0, 1, 2, 6, 7, 8, 100}) {
      std::vector<std::atomic<int>> seen(count);
      ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[i];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST_F(ParallelTest, EveryThreadHasWorkEnough) {
  SetComputeThreads(4, 1000);
  EXPECT_EQ(ThreadsFor(0), 1);
  EXPECT_EQ(ThreadsFor(1999), 1);
  EXPECT_EQ(ThreadsFor(2000), 2);
  EXPECT_EQ(ThreadsFor(1000000), 4);
  EXPECT_EQ(OpenMpThreadsFor(2000), 1);
  EXPECT_EQ(OpenMpThreadsFor(1000000), 4);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  ParallelFor(100, 19, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 100);
  });
  EXPECT_EQ(calls, 1);
  std::atomic<int> ranges = 0;
  ParallelFor(100, 20, [&](int64_t, int64_t) { ++ranges; });
  EXPECT_GT(ranges, 1);
}

TEST_F(ParallelTest, AtLeastOneThread) {
  SetComputeThreads(0);
  EXPECT_EQ(ComputeThreads(), 1);
}

// The setting is the process's: the thread that computes is seldom the one that reads the flags.
TEST_F(ParallelTest, TheSettingHoldsOnEveryThread) {
  SetComputeThreads(3, 1);
  std::thread([] {
    EXPECT_EQ(ComputeThreads(), 3);
    std::atomic<int> ranges = 0;
    ParallelFor(300, 1, [&](int64_t, int64_t) { ++ranges; });
    EXPECT_GE(ranges, 3);
  }).join();
}

TEST_F(ParallelTest, SeveralCallersAtOnce) {
  SetComputeThreads(2, 1);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        ParallelFor(1000, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 20 * 999 * 1000 / 2);
}

}  // namespace
}  // namespace fermata
