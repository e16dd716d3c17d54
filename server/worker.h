#ifndef FERMATA_SERVER_WORKER_H_
#define FERMATA_SERVER_WORKER_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fermata {

// One thread that runs tasks in the order they come, so that neither the engine's thread nor
// gRPC's few callback threads do work that takes long. Thread-safe.
class Worker {
 public:
  using Task = std::function<void()>;

  // `name`, of at most 15 bytes, is what tools call the thread; `max_waiting` bounds what TryPost
  // adds.
  Worker(const char* name, size_t max_waiting);
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
  // With the mutex held; whether the thread has to be woken.
  bool Add(Task task);

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> waiting_;
  bool sleeping_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_WORKER_H_
