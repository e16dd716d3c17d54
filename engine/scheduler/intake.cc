#include "engine/scheduler/intake.h"

#include <utility>

namespace fermata {
namespace {

// Sessions that are brought up at once: enough to keep a disk busy.
constexpr size_t kFetchThreads = 4;

}  // namespace

Intake::Intake(Done done)
    : done_(std::move(done)),
      tokenizing_(1, [this](std::shared_ptr<Job> job) { Prepare(std::move(job)); }),
      fetching_(kFetchThreads, [this](std::shared_ptr<Job> job) { Fetch(std::move(job)); }) {}

void Intake::Add(std::shared_ptr<Job> job, bool needs_fetch) {
  (needs_fetch ? fetching_ : tokenizing_).Add(std::move(job));
}

void Intake::Fetch(std::shared_ptr<Job> job) {
  absl::Status status = job->Fetch();
  if (status.ok()) {
    tokenizing_.Add(std::move(job));
  } else {
    done_(std::move(job), std::move(status));
  }
}

void Intake::Prepare(std::shared_ptr<Job> job) {
  absl::Status status = job->Prepare();
  done_(std::move(job), std::move(status));
}

Intake::Lane::Lane(size_t threads, Work work) : work_(std::move(work)) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Intake::Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Intake::Lane::Add(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Intake::Lane::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || ending_; });
    if (waiting_.empty()) return;
    std::shared_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work_(std::move(job));
    lock.lock();
  }
}

}  // namespace fermata
