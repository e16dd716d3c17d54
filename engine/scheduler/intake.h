#ifndef FERMATA_ENGINE_SCHEDULER_INTAKE_H_
#define FERMATA_ENGINE_SCHEDULER_INTAKE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "engine/scheduler/job.h"

namespace fermata {

// What a job goes through before the engine thread sees it: its session is brought up from a disk
// where it is not in memory, on one of some threads that wait for that, and its prompt is tokenized,
// on one thread. A job that waits for a disk holds up none that does not. Thread-safe.
class Intake {
 public:
  // Takes a job that is ready, or is to be failed with the status. Called on the intake's threads.
  using Done = std::function<void(std::shared_ptr<Job> job, absl::Status status)>;
  explicit Intake(Done done);
  // No job may be left.
  ~Intake() = default;
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  void Add(std::shared_ptr<Job> job, bool needs_fetch);

 private:
  // A queue and the threads that work it off.
  class Lane {
   public:
    using Work = std::function<void(std::shared_ptr<Job>)>;
    Lane(size_t threads, Work work);
    ~Lane();
    void Add(std::shared_ptr<Job> job);

   private:
    void Run();

    const Work work_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Job>> waiting_;
    bool ending_ = false;
    std::vector<std::thread> threads_;
  };

  void Fetch(std::shared_ptr<Job> job);
  void Prepare(std::shared_ptr<Job> job);

  const Done done_;
  Lane tokenizing_;
  Lane fetching_;  // Last: it hands on to the other.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_INTAKE_H_
