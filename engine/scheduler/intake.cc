#include "engine/scheduler/intake.h"

#include <utility>

namespace fermata {
namespace {

// Sessions that are brought up at once: enough to keep a disk busy.
constexpr int kFetchThreads = 4;

}  // namespace

Intake::Intake(Done done)
    : done_(std::move(done)),
      tokenizing_("tokenize", /*max_waiting=*/0),
      fetching_("fetch", /*max_waiting=*/0, kFetchThreads) {}

void Intake::Add(std::shared_ptr<Job> job, bool needs_fetch) {
  if (needs_fetch) {
    fetching_.Post([this, job = std::move(job)] { Fetch(job); });
  } else {
    tokenizing_.Post([this, job = std::move(job)] { Prepare(job); });
  }
}

void Intake::Fetch(const std::shared_ptr<Job>& job) {
  absl::Status status = job->Fetch();
  if (status.ok()) {
    Add(job, /*needs_fetch=*/false);
  } else {
    done_(job, std::move(status));
  }
}

void Intake::Prepare(const std::shared_ptr<Job>& job) { done_(job, job->Prepare()); }

}  // namespace fermata
