#ifndef FERMATA_ENGINE_BASE_WORKER_H_
#define FERMATA_ENGINE_BASE_WORKER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fermata {

// Threads that run tasks in the order they come, for those that must not do work that takes long, or
// that waits, on their own. With one thread, a task begins when the one before it has ended.
// Thread-safe.
class Worker {
 public:
  using Task = std::function<void()>;

  // `name`, of at most 15 bytes, is what tools call the threads; `max_waiting` bounds what TryPost
  // adds.
  Worker(const char* name, size_t max_waiting, int threads = 1);
  // Runs what waits, then ends.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Adds `task`, however many wait: for tasks whose number is bounded elsewhere.
  void Post(Task task);
  // Adds `task` unless max_waiting tasks wait; false then.
  bool TryPost(Task task);

 private:
  void Run();
  // With the mutex held; whether a thread has to be woken.
  bool Add(Task task);

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  int sleeping_ = 0;  // Threads that have not been woken for a task; may be too many.
  bool ending_ = false;
  const bool alone_;  // There is one thread.
  std::vector<std::thread> threads_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_WORKER_H_
