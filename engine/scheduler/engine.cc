#include "engine/scheduler/engine.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/cpus.h"
#include "engine/base/status.h"
#include "engine/scheduler/batch.h"
#include "engine/scheduler/intake.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/places.h"
#include "engine/scheduler/queue.h"
#include "engine/scheduler/score_job.h"
#include "engine/scheduler/turn.h"
#include "engine/scheduler/validate.h"

namespace fermata {
namespace {

// How often an idle engine looks for sessions whose time to live has passed.
constexpr std::chrono::seconds kHousekeepingInterval{1};

Batch::Options BatchOptions(const EngineOptions& options) {
  const int64_t max_tokens = options.prefill_tokens_per_step;
  return {.max_running = options.max_running,
          .prefill_form = options.prefill_form,
          .budget = {.target_seconds = absl::ToDoubleSeconds(options.step_time_target),
                     .min_tokens = std::min(kMinPromptTokens, max_tokens),
                     .max_tokens = max_tokens}};
}

// Why a job that does not end by itself ends now, if it does.
std::optional<FinishReason> Ending(const Job& job, Clock::time_point now) {
  if (job.cancelled()) return FinishReason::kCancelled;
  if (now >= job.deadline()) return FinishReason::kTimeLimit;
  return std::nullopt;
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const Parts& parts, const EngineOptions& options)
      : parts_(parts),
        options_(options),
        places_({.max_running = options.max_running,
                 .max_queued = options.max_queued,
                 .max_queued_per_tenant = options.max_queued_per_tenant,
                 .retry_after = options.retry_after}),
        queue_(options.priority_ageing),
        batch_(parts.model, parts.observer, BatchOptions(options)),
        intake_([this](auto job, auto status) { TakeIn(std::move(job), std::move(status)); }),
        engine_thread_([this] { Run(); }) {}

  ~Impl() {
    Drain(absl::ZeroDuration());
    {
      const std::lock_guard lock(mutex_);
      inbox_.stopping = true;
    }
    Wake();
    engine_thread_.join();
  }

  absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(TurnRequest request,
                                                        std::shared_ptr<TurnSink> sink);
  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request, ScoreCallback done);
  void Wake();
  void Drain(absl::Duration grace);
  EngineLoad load() const;
  const EngineOptions& options() const { return options_; }
  EngineObserver& observer() const { return *parts_.observer; }

 private:
  // What the engine thread takes over from other threads before each step.
  struct Inbox {
    std::vector<std::pair<std::shared_ptr<Job>, absl::Status>> prepared;
    bool draining = false;
    bool stopping = false;
    Clock::time_point drain_deadline = Clock::time_point::max();
  };

  // Takes a place for one request, or says why there is none.
  absl::Status TakePlace(const Claim& claim);
  void ReleasePlace(const Claim& claim, bool ran);
  Job::Hooks Hooks();
  void Enqueue(std::shared_ptr<Job> job, bool needs_fetch);
  // On the intake's threads.
  void TakeIn(std::shared_ptr<Job> job, absl::Status status);

  // The engine thread.
  void Run();
  Inbox WaitForWork();
  Clock::time_point NextDeadline() const;
  void Enlist(const Inbox& inbox);
  void Sweep(const Inbox& inbox);
  void Admit();
  void Step();

  const Parts parts_;
  const EngineOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable all_done_;
  // Guarded by mutex_:
  Inbox inbox_;
  bool wake_ = false;
  Places places_;
  int unfinished_ = 0;  // Jobs that have yet to tell their clients of their end.
  int num_running_ = 0;

  // The engine thread's own:
  Queue queue_;
  Batch batch_;
  bool resting_ = true;  // The last step had nothing to feed.

  Intake intake_;
  std::thread engine_thread_;
};

absl::Status Engine::Impl::TakePlace(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  if (inbox_.draining) return DrainingError();
  return places_.Take(claim.tenant);
}

void Engine::Impl::ReleasePlace(const Claim& claim, bool ran) {
  const std::lock_guard lock(mutex_);
  places_.Release(claim.tenant, ran);
}

Job::Hooks Engine::Impl::Hooks() {
  return {.wake = [this] { Wake(); },
          .release_place = [this](const Job& job) { ReleasePlace(job.claim(), job.admitted()); },
          .ended =
              [this] {
                // Under the lock, as the engine may be gone once Drain has seen the last one end.
                const std::lock_guard lock(mutex_);
                if (--unfinished_ == 0) all_done_.notify_all();
              }};
}

void Engine::Impl::Enqueue(std::shared_ptr<Job> job, bool needs_fetch) {
  {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
  }
  intake_.Add(std::move(job), needs_fetch);
}

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Impl::Submit(
    TurnRequest request, std::shared_ptr<TurnSink> sink) {
  FERMATA_RETURN_IF_ERROR(ValidateTurn(request, parts_.model->info()));
  FERMATA_RETURN_IF_ERROR(TakePlace(request.claim));
  SessionStore::Lease lease;
  bool in_memory = true;
  if (request.session.has_value()) {
    absl::StatusOr<SessionStore::Lease> begun = parts_.sessions->Begin(*request.session);
    absl::StatusOr<bool> fetched = begun.ok() ? begun->TryFetch() : begun.status();
    if (!fetched.ok()) {
      ReleasePlace(request.claim, /*ran=*/false);
      return fetched.status();
    }
    lease = *std::move(begun);
    in_memory = *fetched;
  }
  if (!request.seed_given) request.sampling.seed = RandomSeed();
  auto turn = std::make_shared<Turn>(std::move(request), std::move(sink), std::move(lease),
                                     Turn::Parts{.model = parts_.model,
                                                 .tokenizer = parts_.tokenizer,
                                                 .prefixes = parts_.prefixes,
                                                 .prefill_form = options_.prefill_form,
                                                 .observer = parts_.observer,
                                                 .hooks = Hooks()});
  Enqueue(turn, /*needs_fetch=*/!in_memory);
  return turn;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Impl::Score(ScoreRequest request,
                                                                   ScoreCallback done) {
  FERMATA_RETURN_IF_ERROR(ValidateScore(request, parts_.model->info()));
  FERMATA_RETURN_IF_ERROR(TakePlace(request.claim));
  auto job = std::make_shared<ScoreJob>(
      std::move(request), std::move(done),
      ScoreJob::Parts{
          .tokenizer = parts_.tokenizer, .observer = parts_.observer, .hooks = Hooks()});
  Enqueue(job, /*needs_fetch=*/false);
  return job;
}

void Engine::Impl::Wake() {
  {
    const std::lock_guard lock(mutex_);
    wake_ = true;
  }
  work_ready_.notify_one();
}

void Engine::Impl::Drain(absl::Duration grace) {
  std::unique_lock lock(mutex_);
  inbox_.draining = true;
  inbox_.drain_deadline = std::min(inbox_.drain_deadline, After(grace));
  wake_ = true;
  work_ready_.notify_one();
  all_done_.wait(lock, [this] { return unfinished_ == 0; });
}

EngineLoad Engine::Impl::load() const {
  const std::lock_guard lock(mutex_);
  // A job gives its place back a moment before it stops running.
  return {.running = num_running_, .queued = std::max(places_.taken() - num_running_, 0)};
}

void Engine::Impl::TakeIn(std::shared_ptr<Job> job, absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.prepared.emplace_back(std::move(job), std::move(status));
    wake_ = true;
  }
  work_ready_.notify_one();
}

void Engine::Impl::Run() {
  const ComputeCpusScope scope;
  while (true) {
    const Inbox inbox = WaitForWork();
    if (inbox.stopping) return;
    Enlist(inbox);
    Sweep(inbox);
    Admit();
    Step();
    parts_.sessions->DropExpired();
  }
}

Engine::Impl::Inbox Engine::Impl::WaitForWork() {
  std::unique_lock lock(mutex_);
  num_running_ = static_cast<int>(batch_.running().size());
  if (resting_) work_ready_.wait_until(lock, NextDeadline(), [this] { return wake_; });
  wake_ = false;
  Inbox taken = inbox_;
  inbox_.prepared.clear();
  // Stopping follows a drain, after which nothing is left.
  return taken;
}

Clock::time_point Engine::Impl::NextDeadline() const {
  Clock::time_point next = Clock::now() + kHousekeepingInterval;
  for (const Batch::Running& running : batch_.running()) {
    next = std::min(next, running.job->deadline());
  }
  for (const Queue::Entry& entry : queue_.entries()) next = std::min(next, entry.job->deadline());
  return next;
}

void Engine::Impl::Enlist(const Inbox& inbox) {
  for (const auto& [job, status] : inbox.prepared) {
    if (status.ok()) {
      queue_.Push({.job = job,
                   .claim = job->claim(),
                   .prompt_tokens = job->prompt_tokens(),
                   .arrival = job->arrival()});
    } else {
      job->Fail(status);
    }
  }
}

void Engine::Impl::Sweep(const Inbox& inbox) {
  const Clock::time_point now = Clock::now();
  queue_.RemoveIf([&](const Queue::Entry& entry) {
    if (const auto reason = Ending(*entry.job, now)) {
      entry.job->Stop(*reason);
    } else if (inbox.draining) {
      entry.job->Fail(DrainingError());
    } else {
      return false;
    }
    return true;
  });
  for (const Batch::Running& running : batch_.running()) {
    if (const auto reason = Ending(*running.job, now)) {
      running.job->Stop(*reason);
    } else if (inbox.draining && now >= inbox.drain_deadline) {
      running.job->Stop(FinishReason::kDrained);
    }
  }
  batch_.RemoveDone();
}

void Engine::Impl::Admit() {
  const Clock::time_point now = Clock::now();
  while (!queue_.empty() && !batch_.full()) {
    const std::shared_ptr<Job> job = queue_.Pop(now).job;
    {
      const std::lock_guard lock(mutex_);
      places_.StartRunning(job->claim().tenant);
      job->SetAdmitted();
    }
    batch_.Add(job);
    batch_.RemoveDone();
  }
  const std::lock_guard lock(mutex_);
  num_running_ = static_cast<int>(batch_.running().size());
}

void Engine::Impl::Step() {
  resting_ = !batch_.Step();
  for (const Batch::Running& running : batch_.running()) {
    if (running.decoded) queue_.Charge(running.job->claim().tenant, 1);
  }
  batch_.RemoveDone();
}

Engine::Engine(const Parts& parts, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(parts, options)) {}

Engine::~Engine() = default;

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Submit(TurnRequest request,
                                                              std::shared_ptr<TurnSink> sink) {
  const std::string request_id = request.request_id;
  auto handle = impl_->Submit(std::move(request), std::move(sink));
  if (!handle.ok()) impl_->observer().RequestFailed(request_id, handle.status());
  return handle;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Score(ScoreRequest request,
                                                             ScoreCallback done) {
  const std::string request_id = request.request_id;
  auto handle = impl_->Score(std::move(request), std::move(done));
  if (!handle.ok()) impl_->observer().RequestFailed(request_id, handle.status());
  return handle;
}

void Engine::Wake() { impl_->Wake(); }

void Engine::Drain(absl::Duration grace) { impl_->Drain(grace); }

EngineLoad Engine::load() const { return impl_->load(); }

const EngineOptions& Engine::options() const { return impl_->options(); }

}  // namespace fermata
