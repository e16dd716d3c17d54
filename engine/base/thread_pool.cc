#include "engine/base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include <emmintrin.h>

namespace fermata {
namespace {

// How long a thread looks out before it sleeps.
constexpr std::chrono::microseconds kLookOut{100};
// Looks between two chances for other threads to run, about a µs.
constexpr int kLooks = 32;

template <typename Ready>
bool LookOutFor(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kLookOut;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return true;
      _mm_pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

constexpr int kTasksShift = 20;
constexpr int kHelpersShift = 40;

uint64_t OfferOf(int64_t helpers, int64_t tasks) {
  return static_cast<uint64_t>(helpers) << kHelpersShift | static_cast<uint64_t>(tasks)
                                                               << kTasksShift;
}

// The task that `index` may take, or -1.
int64_t NextTask(uint64_t offer, int64_t index) {
  const auto taken = static_cast<int64_t>(offer & ThreadPool::kMostTasks);
  const auto tasks = static_cast<int64_t>(offer >> kTasksShift & ThreadPool::kMostTasks);
  return taken < tasks && index < static_cast<int64_t>(offer >> kHelpersShift) ? taken : -1;
}

}  // namespace

ThreadPool& ThreadPool::Instance() {
  static auto& pool = *new ThreadPool;
  return pool;
}

void ThreadPool::Run(int threads, int64_t tasks, absl::FunctionRef<void(int64_t i)> task) {
  if (threads == 1 || tasks == 1 || has_caller_.exchange(true, std::memory_order_acquire)) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  const int64_t helpers = StartHelpers(std::min<int64_t>(threads, tasks) - 1);
  task_ = &task;
  unfinished_.store(tasks, std::memory_order_relaxed);
  offer_.store(OfferOf(helpers, tasks));
  for (int64_t i = 0; i < helpers; ++i) Wake(*helpers_[i]);
  DoTasks(kCaller);
  AwaitLastTask();
  has_caller_.store(false, std::memory_order_release);
}

int64_t ThreadPool::StartHelpers(int64_t wanted) {
  while (static_cast<int64_t>(helpers_.size()) < wanted) {
    const auto index = static_cast<int64_t>(helpers_.size());
    Helper& helper = *helpers_.emplace_back(std::make_unique<Helper>());
    try {
      std::thread([this, index, &helper] { Help(index, helper); }).detach();
    } catch (const std::system_error&) {
      helpers_.pop_back();
      return index;
    }
  }
  return wanted;
}

void ThreadPool::Help(int64_t index, Helper& helper) {
  // Here and in AwaitLastTask, one side says that it sleeps and then looks again, the other changes
  // what is looked at and then asks whether someone sleeps: in one order for all threads, as the
  // default order of atomic operations is, one of the two notices.
  const auto has_work = [&] { return NextTask(offer_.load(), index) >= 0; };
  for (;;) {
    if (!LookOutFor(has_work)) {
      std::unique_lock lock(helper.mutex);
      helper.sleeps.store(true);
      helper.wake.wait(lock, has_work);
      helper.sleeps.store(false);
    }
    DoTasks(index);
  }
}

void ThreadPool::Wake(Helper& helper) {
  if (!helper.sleeps.load()) return;
  { const std::lock_guard lock(helper.mutex); }
  helper.wake.notify_one();
}

void ThreadPool::DoTasks(int64_t index) {
  uint64_t offer = offer_.load();
  for (int64_t i = NextTask(offer, index); i >= 0; i = NextTask(offer, index)) {
    if (!offer_.compare_exchange_weak(offer, offer + 1)) continue;
    (*task_)(i);
    if (unfinished_.fetch_sub(1) == 1 && caller_sleeps_.load()) {
      { const std::lock_guard lock(done_mutex_); }
      done_.notify_one();
    }
    offer = offer_.load();
  }
}

void ThreadPool::AwaitLastTask() {
  const auto all_done = [&] { return unfinished_.load() == 0; };
  if (LookOutFor(all_done)) return;
  std::unique_lock lock(done_mutex_);
  caller_sleeps_.store(true);
  done_.wait(lock, all_done);
  caller_sleeps_.store(false);
}

}  // namespace fermata
