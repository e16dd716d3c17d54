#include "engine/base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

// Longer than a thread without work looks out for some.
constexpr std::chrono::milliseconds kUntilAsleep{5};

// Returns when it has been called `wanted` times: they run at the same time.
class Meeting {
 public:
  void Attend(int wanted) {
    ++present_;
    while (present_ < wanted) std::this_thread::yield();
  }

 private:
  std::atomic<int> present_ = 0;
};

TEST(ThreadPoolTest, DoesEachTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const int64_t tasks : {0, 1, 2, 3, 8, 1000}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<std::atomic<int>> times(tasks);
        ThreadPool::Instance().Run(threads, tasks, [&](int64_t i) { ++times[i]; });
        for (const auto& each : times) ASSERT_EQ(each, 1) << threads << " threads";
      }
    }
  }
}

TEST(ThreadPoolTest, HelpersHelpAwakeOrAsleep) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    if (repeat % 20 == 0) std::this_thread::sleep_for(kUntilAsleep);
    // About when they fall asleep.
    if (repeat % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(repeat));
    const int threads = 2 + repeat % 2;
    Meeting meeting;
    ThreadPool::Instance().Run(threads, threads, [&](int64_t) { meeting.Attend(threads); });
  }
}

TEST(ThreadPoolTest, NoMoreThreadsThanAsked) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    Meeting all_awake;
    ThreadPool::Instance().Run(5, 5, [&](int64_t) { all_awake.Attend(5); });
    std::mutex mutex;
    std::set<std::thread::id> threads;
    ThreadPool::Instance().Run(2, 50, [&](int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    EXPECT_LE(threads.size(), 2U);
  }
}

TEST(ThreadPoolTest, WaitsForTheSlowest) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto caller = std::this_thread::get_id();
    std::atomic<int> done = 0;
    Meeting meeting;
    ThreadPool::Instance().Run(2, 2, [&](int64_t) {
      meeting.Attend(2);
      if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(kUntilAsleep);
      ++done;
    });
    EXPECT_EQ(done, 2);
  }
}

TEST(ThreadPoolTest, ATaskThatCallsRunDoesItsTasksItself) {
  std::atomic<int> done = 0;
  ThreadPool::Instance().Run(3, 6, [&](int64_t) {
    const auto outer = std::this_thread::get_id();
    ThreadPool::Instance().Run(3, 4, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++done;
    });
  });
  EXPECT_EQ(done, 24);
}

TEST(ThreadPoolTest, CallersDoNotWaitForOneAnother) {
  // Both are in Run at once, or neither returns.
  Meeting meeting;
  const auto call = [&] {
    std::atomic<bool> met = false;
    ThreadPool::Instance().Run(2, 2, [&](int64_t) {
      if (!met.exchange(true)) meeting.Attend(2);
    });
  };
  std::thread other(call);
  call();
  other.join();
}

}  // namespace
}  // namespace fermata
