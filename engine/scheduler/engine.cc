#include "engine/scheduler/engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/score_job.h"
#include "engine/scheduler/turn.h"
#include "engine/scheduler/validate.h"

namespace fermata {
namespace {

// How often an idle engine looks for sessions whose time to live has passed.
constexpr std::chrono::seconds kHousekeepingInterval{1};

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
        intake_thread_([this] { RunIntake(); }),
        engine_thread_([this] { Run(); }) {}

  ~Impl() {
    Drain(absl::ZeroDuration());
    {
      const std::lock_guard lock(mutex_);
      inbox_.stopping = true;
    }
    intake_ready_.notify_all();
    Wake();
    intake_thread_.join();
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
  // A job with the state it works on.
  struct Running {
    std::shared_ptr<Job> job;
    std::unique_ptr<SequenceState> state;
  };
  // A part of a step: whose tokens, and which.
  struct Feed {
    Running* running;
    JobStep step;
  };
  // What the engine thread takes over from other threads before each step.
  struct Inbox {
    std::vector<std::pair<std::shared_ptr<Job>, absl::Status>> prepared;
    bool draining = false;
    bool stopping = false;
    Clock::time_point drain_deadline = Clock::time_point::max();
  };

  // Takes a place in the queue for one request, or says why there is none.
  absl::Status ReservePlace();
  void ReleasePlace();
  Job::Hooks Hooks();
  void Enqueue(std::shared_ptr<Job> job);

  void RunIntake();

  // The engine thread.
  void Run();
  Inbox WaitForWork();
  Clock::time_point NextDeadline() const;
  void Sweep(const Inbox& inbox);
  void Admit();
  void Step();
  void RunPass(std::span<Feed> feeds, Form form, StepStats& stats);
  void Retire(Running& running);
  // A job has told its client of its end.
  void CountDone();

  const Parts parts_;
  const EngineOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable intake_ready_;
  std::condition_variable work_ready_;
  std::condition_variable all_done_;
  // Guarded by mutex_:
  std::deque<std::shared_ptr<Job>> intake_;
  Inbox inbox_;
  bool wake_ = false;
  int places_taken_ = 0;  // Of max_running + max_queued.
  int unfinished_ = 0;    // Jobs that have yet to tell their clients of their end.
  int num_running_ = 0;

  // The engine thread's own:
  std::deque<std::shared_ptr<Job>> waiting_;
  std::vector<Running> running_;
  std::vector<std::unique_ptr<SequenceState>> free_states_;
  Model::Workspace workspace_;
  bool resting_ = true;  // The last step had nothing to feed.

  std::thread intake_thread_;
  std::thread engine_thread_;
};

absl::Status Engine::Impl::ReservePlace() {
  const std::lock_guard lock(mutex_);
  if (inbox_.draining) return DrainingError();
  if (places_taken_ >= options_.max_running + options_.max_queued) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the queue is full: ", options_.max_running, " running and ",
                                  options_.max_queued, " waiting requests are the limit"),
                     {.reason = "QUEUE_FULL", .retry_after = options_.retry_after});
  }
  ++places_taken_;
  return absl::OkStatus();
}

void Engine::Impl::ReleasePlace() {
  const std::lock_guard lock(mutex_);
  --places_taken_;
}

void Engine::Impl::CountDone() {
  const std::lock_guard lock(mutex_);
  if (--unfinished_ == 0) all_done_.notify_all();
}

Job::Hooks Engine::Impl::Hooks() {
  return {.wake = [this] { Wake(); }, .release_place = [this] { ReleasePlace(); }};
}

void Engine::Impl::Enqueue(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    intake_.push_back(std::move(job));
    ++unfinished_;
  }
  intake_ready_.notify_one();
}

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Impl::Submit(
    TurnRequest request, std::shared_ptr<TurnSink> sink) {
  FERMATA_RETURN_IF_ERROR(ValidateTurn(request, parts_.model->info()));
  FERMATA_RETURN_IF_ERROR(ReservePlace());
  SessionStore::Lease lease;
  if (request.session.has_value()) {
    absl::StatusOr<SessionStore::Lease> begun = parts_.sessions->Begin(*request.session);
    if (!begun.ok()) {
      ReleasePlace();
      return begun.status();
    }
    lease = *std::move(begun);
  }
  if (!request.seed_given) request.sampling.seed = RandomSeed();
  auto turn = std::make_shared<Turn>(std::move(request), std::move(sink), std::move(lease),
                                     Turn::Parts{.model = parts_.model,
                                                 .tokenizer = parts_.tokenizer,
                                                 .observer = parts_.observer,
                                                 .hooks = Hooks()});
  Enqueue(turn);
  return turn;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> Engine::Impl::Score(ScoreRequest request,
                                                                   ScoreCallback done) {
  FERMATA_RETURN_IF_ERROR(ValidateScore(request, parts_.model->info()));
  FERMATA_RETURN_IF_ERROR(ReservePlace());
  auto job = std::make_shared<ScoreJob>(
      std::move(request), std::move(done),
      ScoreJob::Parts{
          .tokenizer = parts_.tokenizer, .observer = parts_.observer, .hooks = Hooks()});
  Enqueue(job);
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
  return {.running = num_running_, .queued = std::max(places_taken_ - num_running_, 0)};
}

void Engine::Impl::RunIntake() {
  std::unique_lock lock(mutex_);
  while (true) {
    intake_ready_.wait(lock, [this] { return !intake_.empty() || inbox_.stopping; });
    if (intake_.empty()) return;
    std::shared_ptr<Job> job = std::move(intake_.front());
    intake_.pop_front();
    lock.unlock();
    absl::Status status = job->Prepare();
    lock.lock();
    inbox_.prepared.emplace_back(std::move(job), std::move(status));
    wake_ = true;
    work_ready_.notify_one();
  }
}

void Engine::Impl::Run() {
  while (true) {
    const Inbox inbox = WaitForWork();
    if (inbox.stopping) return;
    for (const auto& [job, status] : inbox.prepared) {
      if (status.ok()) {
        waiting_.push_back(job);
      } else {
        job->Fail(status);
        CountDone();
      }
    }
    Sweep(inbox);
    Admit();
    Step();
    parts_.sessions->DropExpired();
  }
}

Engine::Impl::Inbox Engine::Impl::WaitForWork() {
  std::unique_lock lock(mutex_);
  num_running_ = static_cast<int>(running_.size());
  if (resting_) work_ready_.wait_until(lock, NextDeadline(), [this] { return wake_; });
  wake_ = false;
  Inbox taken = inbox_;
  inbox_.prepared.clear();
  // Stopping follows a drain, after which nothing is left.
  return taken;
}

Clock::time_point Engine::Impl::NextDeadline() const {
  Clock::time_point next = Clock::now() + kHousekeepingInterval;
  for (const Running& running : running_) next = std::min(next, running.job->deadline());
  for (const auto& job : waiting_) next = std::min(next, job->deadline());
  return next;
}

void Engine::Impl::Sweep(const Inbox& inbox) {
  const Clock::time_point now = Clock::now();
  std::erase_if(waiting_, [&](const std::shared_ptr<Job>& job) {
    if (job->cancelled()) {
      job->Stop(FinishReason::kCancelled);
    } else if (now >= job->deadline()) {
      job->Stop(FinishReason::kTimeLimit);
    } else if (inbox.draining) {
      job->Fail(DrainingError());
    } else {
      return false;
    }
    CountDone();
    return true;
  });
  for (Running& running : running_) {
    if (running.job->cancelled()) {
      running.job->Stop(FinishReason::kCancelled);
    } else if (now >= running.job->deadline()) {
      running.job->Stop(FinishReason::kTimeLimit);
    } else if (inbox.draining && now >= inbox.drain_deadline) {
      running.job->Stop(FinishReason::kDrained);
    }
    if (running.job->done()) Retire(running);
  }
  std::erase_if(running_, [](const Running& running) { return running.job == nullptr; });
}

void Engine::Impl::Admit() {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_running) {
    Running running{.job = std::move(waiting_.front()), .state = nullptr};
    waiting_.pop_front();
    if (free_states_.empty()) {
      running.state = std::make_unique<SequenceState>(parts_.model->NewState());
    } else {
      running.state = std::move(free_states_.back());
      free_states_.pop_back();
      running.state->Clear();
    }
    const absl::Status status = running.job->Start(running.state.get());
    if (!status.ok()) running.job->Fail(status);
    if (running.job->done()) {
      Retire(running);
    } else {
      running_.push_back(std::move(running));
    }
  }
  const std::lock_guard lock(mutex_);
  num_running_ = static_cast<int>(running_.size());
}

void Engine::Impl::Retire(Running& running) {
  free_states_.push_back(std::move(running.state));
  running.job = nullptr;
  CountDone();
}

void Engine::Impl::Step() {
  const Clock::time_point begin = Clock::now();
  const bool chunkwise = options_.prefill_form != Form::kRecurrent;
  int64_t prompt_budget = options_.prefill_tokens_per_step;
  std::vector<Feed> prompts;
  std::vector<Feed> decodes;
  for (Running& running : running_) {
    int64_t budget = prompt_budget;
    if (chunkwise) {
      const int64_t position = running.state->position;
      budget = std::max<int64_t>((position + budget) / kChunkTokens * kChunkTokens - position, 0);
    }
    const JobStep step = running.job->Next(budget);
    if (step.tokens.empty()) continue;
    if (!step.decode) prompt_budget -= static_cast<int64_t>(step.tokens.size());
    (step.decode ? decodes : prompts).push_back({.running = &running, .step = step});
  }
  resting_ = prompts.empty() && decodes.empty();
  if (resting_) return;

  StepStats stats;
  const int64_t clamps_before = workspace_.counters.denominator_clamps;
  if (chunkwise) {
    RunPass(prompts, options_.prefill_form, stats);
  } else {
    decodes.insert(decodes.end(), prompts.begin(), prompts.end());
  }
  RunPass(decodes, Form::kRecurrent, stats);

  for (Running& running : running_) {
    if (running.job->done()) Retire(running);
  }
  std::erase_if(running_, [](const Running& running) { return running.job == nullptr; });
  // A long prompt takes the whole budget of the step that it is first in, so each is first in turn.
  if (running_.size() > 1) std::rotate(running_.begin(), running_.begin() + 1, running_.end());

  stats.duration = absl::FromChrono(Clock::now() - begin);
  stats.denominator_clamps = workspace_.counters.denominator_clamps - clamps_before;
  parts_.observer->StepDone(stats);
}

void Engine::Impl::RunPass(std::span<Feed> feeds, Form form, StepStats& stats) {
  if (feeds.empty()) return;
  std::vector<SequenceStep> steps;
  for (const Feed& feed : feeds) {
    steps.push_back({.tokens = feed.step.tokens,
                     .state = feed.running->state.get(),
                     .logits = feed.step.logits});
    (feed.step.decode ? stats.decode_tokens : stats.prompt_tokens) +=
        static_cast<int64_t>(feed.step.tokens.size());
  }
  stats.sequences += static_cast<int64_t>(feeds.size());

  std::span<const float> logits = parts_.model->Forward(steps, form, workspace_);
  const auto vocab_size = static_cast<size_t>(parts_.model->info().vocab_size);
  for (const Feed& feed : feeds) {
    size_t rows = 0;
    if (feed.step.logits == SequenceStep::Logits::kLast) rows = 1;
    if (feed.step.logits == SequenceStep::Logits::kAll) rows = feed.step.tokens.size();
    feed.running->job->Advance(logits.first(rows * vocab_size));
    logits = logits.subspan(rows * vocab_size);
  }
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
