#include "engine/scheduler/batch.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/base/parallel.h"

namespace fermata {
namespace {

// What choosing a token costs for each of the vocabulary's, in ParallelFor's unit.
constexpr int64_t kChoiceWork = 8;

// A prompt in chunks moves by whole ones.
StepBudget::Options WholeChunks(StepBudget::Options budget, Form form) {
  if (form == Form::kRecurrent) return budget;
  budget.min_tokens = std::max(budget.min_tokens, kChunkTokens);
  budget.max_tokens = std::max(budget.max_tokens, kChunkTokens);
  return budget;
}

int64_t LogitRows(const JobStep& step) {
  switch (step.logits) {
    case SequenceStep::Logits::kNone:
      return 0;
    case SequenceStep::Logits::kLast:
      return 1;
    case SequenceStep::Logits::kAll:
      break;
  }
  return static_cast<int64_t>(step.tokens.size());
}

absl::Duration Since(Clock::time_point begin) { return absl::FromChrono(Clock::now() - begin); }

}  // namespace

Batch::Batch(const Model* model, EngineObserver* observer, const Options& options)
    : model_(*model),
      observer_(*observer),
      options_(options),
      budget_(WholeChunks(options.budget, options.prefill_form)) {}

void Batch::Add(std::shared_ptr<Job> job) {
  assert(!full());
  Running running{.job = std::move(job)};
  if (free_states_.empty()) {
    running.state = std::make_unique<SequenceState>(model_.NewState());
  } else {
    running.state = std::move(free_states_.back());
    free_states_.pop_back();
    running.state->Clear();
  }
  const absl::Status status = running.job->Start(running.state.get());
  if (!status.ok()) running.job->Fail(status);
  running_.push_back(std::move(running));
}

void Batch::RemoveDone() {
  for (Running& running : running_) {
    if (running.job->done()) free_states_.push_back(std::move(running.state));
  }
  std::erase_if(running_, [](const Running& running) { return running.job->done(); });
}

bool Batch::Step() {
  const Clock::time_point begin = Clock::now();
  StepStats stats;
  FeedDecodes();
  FeedPrompts(stats);
  if (decodes_.empty() && prompts_.empty()) return false;

  const int64_t clamps_before = workspace_.counters.denominator_clamps;
  if (options_.prefill_form == Form::kRecurrent) {
    decodes_.insert(decodes_.end(), prompts_.begin(), prompts_.end());
  } else {
    RunPass(prompts_, options_.prefill_form, stats);
  }
  RunPass(decodes_, Form::kRecurrent, stats);
  // What the budget leaves over goes to the first prompts, so each is first in turn.
  if (running_.size() > 1) std::rotate(running_.begin(), running_.begin() + 1, running_.end());

  stats.duration = Since(begin);
  stats.denominator_clamps = workspace_.counters.denominator_clamps - clamps_before;
  budget_.Observe(stats.decode_tokens, stats.prompt_tokens, absl::ToDoubleSeconds(stats.duration));
  observer_.StepDone(stats);
  return true;
}

void Batch::FeedDecodes() {
  decodes_.clear();
  for (Running& running : running_) {
    running.decoded = false;
    if (running.job->PromptLeft() > 0) continue;
    const JobStep step = running.job->Next(0);
    if (step.tokens.empty()) continue;
    running.decoded = true;
    decodes_.push_back({.running = &running, .step = step});
  }
}

void Batch::FeedPrompts(StepStats& stats) {
  prompts_.clear();
  std::vector<Running*> readers;
  std::vector<PromptDemand> demands;
  for (Running& running : running_) {
    const int64_t left = running.job->PromptLeft();
    if (left <= 0) continue;
    readers.push_back(&running);
    demands.push_back({.position = running.state->position, .tokens = left});
  }
  if (readers.empty()) return;
  stats.prompt_budget = budget_.PromptTokens(static_cast<int64_t>(decodes_.size()));
  const int64_t chunk = options_.prefill_form == Form::kRecurrent ? 1 : kChunkTokens;
  const std::vector<int64_t> shares = SharePromptBudget(demands, stats.prompt_budget, chunk);
  for (size_t i = 0; i < readers.size(); ++i) {
    if (shares[i] == 0) continue;
    prompts_.push_back({.running = readers[i], .step = readers[i]->job->Next(shares[i])});
  }
}

void Batch::RunPass(std::span<const Feed> feeds, Form form, StepStats& stats) {
  if (feeds.empty()) return;
  std::vector<SequenceStep> steps;
  std::vector<std::pair<Job*, int64_t>> rows;  // Whose each row of logits is, and which of its own.
  for (const auto& [running, step] : feeds) {
    steps.push_back({.tokens = step.tokens, .state = running->state.get(), .logits = step.logits});
    for (int64_t row = 0; row < LogitRows(step); ++row) rows.push_back({running->job.get(), row});
    (step.decode ? stats.decode_tokens : stats.prompt_tokens) +=
        static_cast<int64_t>(step.tokens.size());
  }
  stats.sequences += static_cast<int64_t>(feeds.size());

  const Clock::time_point begin = Clock::now();
  const std::span<const float> logits = model_.Forward(steps, form, workspace_);
  stats.forward += Since(begin);

  const Clock::time_point forwarded = Clock::now();
  const int64_t vocab_size = model_.info().vocab_size;
  ParallelFor(static_cast<int64_t>(rows.size()), kChoiceWork * vocab_size,
              [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) {
                  rows[i].first->TakeLogits(rows[i].second,
                                            logits.subspan(i * vocab_size, vocab_size));
                }
              });
  stats.choosing += Since(forwarded);
  for (const Feed& feed : feeds) feed.running->job->Advance();
}

}  // namespace fermata
