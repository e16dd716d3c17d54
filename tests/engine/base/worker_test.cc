#include "engine/base/worker.h"

#include <atomic>
#include <barrier>
#include <future>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace fermata {
namespace {

TEST(WorkerTest, RunsInOrderOnOneThreadAndFinishesWhatWaits) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  {
    Worker worker("test", 0);
    for (int i = 0; i < 1000; ++i) {
      worker.Post([&, i] {
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
      });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(threads[i], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(WorkerTest, WakesForEachTask) {
  Worker worker("test", 8);
  for (int i = 0; i < 1000; ++i) {
    std::promise<int> done;
    ASSERT_TRUE(worker.TryPost([&] { done.set_value(i); }));
    EXPECT_EQ(done.get_future().get(), i);
  }
}

TEST(WorkerTest, TryPostIsBoundedAndPostIsNot) {
  std::promise<void> started;
  std::promise<void> release;
  int ran = 0;
  {
    Worker worker("test", 2);
    worker.Post([&] {
      started.set_value();
      release.get_future().wait();
    });
    started.get_future().wait();
    EXPECT_TRUE(worker.TryPost([&] { ++ran; }));
    EXPECT_TRUE(worker.TryPost([&] { ++ran; }));
    EXPECT_FALSE(worker.TryPost([&] { ++ran; }));
    worker.Post([&] { ++ran; });
    release.set_value();
  }
  EXPECT_EQ(ran, 3);
}

TEST(WorkerTest, TasksMayPostTasks) {
  std::promise<void> done;
  Worker worker("test", 1);
  worker.Post([&] { worker.Post([&] { done.set_value(); }); });
  done.get_future().wait();
}

// Each of the first tasks ends only when the others have begun.
TEST(WorkerTest, SeveralThreadsRunTasksAtOnceAndAllOfThem) {
  constexpr int kThreads = 4;
  std::barrier together(kThreads);
  std::atomic<int> ran = 0;
  {
    Worker worker("test", 1000, kThreads);
    for (int i = 0; i < kThreads; ++i) {
      worker.Post([&] {
        together.arrive_and_wait();
        ++ran;
      });
    }
    for (int i = 0; i < 1000; ++i) worker.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000 + kThreads);
}

// A task that waits holds up one thread only.
TEST(WorkerTest, ATaskIsNotLeftBehindOneThatWaits) {
  Worker worker("test", 1000, 2);
  std::promise<void> release;
  worker.Post([&] { release.get_future().wait(); });
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    worker.Post([&] { done.set_value(); });
    done.get_future().wait();
  }
  release.set_value();
}

}  // namespace
}  // namespace fermata
