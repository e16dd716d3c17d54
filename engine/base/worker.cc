#include "engine/base/worker.h"

#include <utility>

#include <pthread.h>

namespace fermata {

Worker::Worker(const char* name, size_t max_waiting, int threads)
    : max_waiting_(max_waiting), alone_(threads == 1) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), name);
  }
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Worker::Post(Task task) {
  std::unique_lock lock(mutex_);
  const bool wake = Add(std::move(task));
  lock.unlock();
  if (wake) changed_.notify_one();
}

bool Worker::TryPost(Task task) {
  std::unique_lock lock(mutex_);
  if (waiting_.size() >= max_waiting_) return false;
  const bool wake = Add(std::move(task));
  lock.unlock();
  if (wake) changed_.notify_one();
  return true;
}

bool Worker::Add(Task task) {
  waiting_.push_back(std::move(task));
  // Waking a thread costs more than adding a task, so only as many as sleep are woken.
  if (sleeping_ == 0) return false;
  --sleeping_;
  return true;
}

void Worker::Run() {
  std::deque<Task> batch;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      while (waiting_.empty() && !ending_) {
        ++sleeping_;
        changed_.wait(lock);
      }
      if (waiting_.empty()) return;
      if (alone_) {
        batch.swap(waiting_);
      } else {
        batch.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    for (Task& task : batch) std::exchange(task, nullptr)();
    batch.clear();
  }
}

}  // namespace fermata
