#include "server/worker.h"

#include <utility>

#include <pthread.h>

namespace fermata {

Worker::Worker(const char* name, size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
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
  // Waking a thread costs more than adding a task, so only the first task of a batch does it.
  return std::exchange(sleeping_, false);
}

void Worker::Run() {
  std::vector<Task> batch;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      while (waiting_.empty() && !ending_) {
        sleeping_ = true;
        changed_.wait(lock);
      }
      if (waiting_.empty()) return;
      batch.swap(waiting_);
    }
    for (Task& task : batch) std::exchange(task, nullptr)();
    batch.clear();
  }
}

}  // namespace fermata
