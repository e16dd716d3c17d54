#ifndef FERMATA_ENGINE_BASE_THREAD_POOL_H_
#define FERMATA_ENGINE_BASE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"

namespace fermata {

// Threads that help the one that has work. A forward pass comes in some hundred pieces, a few µs
// apart, and waking a thread takes longer than most of them. So helpers that have run out of work
// look out for more for a short while, behind any other thread that wants their processor, before
// they sleep.
//
// Tasks are not dealt out: whoever is free takes the next. A helper that is not awake yet, or whose
// processor was taken from it, delays nobody but for the task that it is at.
//
// Thread-safe. Callers are helped one at a time; another, or a task that calls Run, does its tasks
// itself.
class ThreadPool {
 public:
  // The process's own, never destroyed: its threads wait for work until the process ends.
  static ThreadPool& Instance();

  // Calls task(i) for each i in [0, tasks), on the calling thread and at most `threads` - 1 others,
  // and returns when all are done. There are at most kMostTasks.
  void Run(int threads, int64_t tasks, absl::FunctionRef<void(int64_t i)> task);

  static constexpr int64_t kMostTasks = (1 << 20) - 1;

 private:
  struct Helper {
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<bool> sleeps = false;
  };

  ThreadPool() = default;

  // Makes as many as the system allows. Returns how many of `wanted` there are.
  int64_t StartHelpers(int64_t wanted);
  void Help(int64_t index, Helper& helper);
  void Wake(Helper& helper);
  // Does tasks while there are any that the helper may take; the caller may take all.
  static constexpr int64_t kCaller = -1;
  void DoTasks(int64_t index);
  void AwaitLastTask();

  std::atomic<bool> has_caller_ = false;
  std::vector<std::unique_ptr<Helper>> helpers_;  // The caller's.

  // The caller's offer: how many may help, how many tasks there are and how many of them are taken,
  // in one word, as they are looked at and taken in one step. What follows does not change while a
  // task is left to take or to finish.
  std::atomic<uint64_t> offer_ = 0;
  const absl::FunctionRef<void(int64_t)>* task_ = nullptr;
  std::atomic<int64_t> unfinished_ = 0;

  std::mutex done_mutex_;
  std::condition_variable done_;
  std::atomic<bool> caller_sleeps_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_THREAD_POOL_H_
