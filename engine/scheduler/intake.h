#ifndef FERMATA_ENGINE_SCHEDULER_INTAKE_H_
#define FERMATA_ENGINE_SCHEDULER_INTAKE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "engine/base/worker.h"
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
  void Fetch(const std::shared_ptr<Job>& job);
  void Prepare(const std::shared_ptr<Job>& job);

  const Done done_;
  Worker tokenizing_;
  Worker fetching_;  // Last: it hands on to the other.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_INTAKE_H_
