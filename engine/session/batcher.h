#ifndef FERMATA_ENGINE_SESSION_BATCHER_H_
#define FERMATA_ENGINE_SESSION_BATCHER_H_

#include <condition_variable>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fermata {

// A thread that works off what is given to it: all that waits at a time together, in the order in
// which it came. Thread-safe.
template <typename T>
class Batcher {
 public:
  explicit Batcher(std::function<void(std::vector<T>)> work)
      : work_(std::move(work)), thread_([this] { Run(); }) {}
  // Works off what is left.
  ~Batcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  void Add(std::vector<T> items) {
    if (items.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), std::make_move_iterator(items.begin()),
                      std::make_move_iterator(items.end()));
    }
    changed_.notify_all();
  }

  // Blocks until nothing waits and nothing is being worked on. Not to be called by `work`.
  void Drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !working_; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::vector<T> batch = std::exchange(waiting_, {});
      working_ = true;
      lock.unlock();
      work_(std::move(batch));
      lock.lock();
      working_ = false;
      changed_.notify_all();
    }
  }

  const std::function<void(std::vector<T>)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> waiting_;
  bool working_ = false;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_BATCHER_H_
