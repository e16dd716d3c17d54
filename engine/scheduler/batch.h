#ifndef FERMATA_ENGINE_SCHEDULER_BATCH_H_
#define FERMATA_ENGINE_SCHEDULER_BATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/model.h"
#include "engine/scheduler/budget.h"
#include "engine/scheduler/job.h"
#include "engine/scheduler/observer.h"

namespace fermata {

// The jobs that run, each with the state it works on, and the steps that they take together. The
// engine thread's own.
class Batch {
 public:
  struct Options {
    int max_running = 1;
    Form prefill_form = Form::kRecurrent;
    // The limits are raised to kChunkTokens where prompts are computed in chunks.
    StepBudget::Options budget;
  };
  struct Running {
    std::shared_ptr<Job> job;
    std::unique_ptr<SequenceState> state;
    bool decoded = false;  // The last step consumed a token that it had sampled.
  };

  Batch(const Model* model, EngineObserver* observer, const Options& options);

  bool full() const { return static_cast<int>(running_.size()) >= options_.max_running; }
  // In the order in which the next step serves them.
  std::span<const Running> running() const { return running_; }

  // Gives a job a cleared state and has it start; it may be done at once. Not when full.
  void Add(std::shared_ptr<Job> job);
  // Puts away the jobs that are done.
  void RemoveDone();

  // Feeds every sequence that decodes its next token, and as much of the prompts as the budget
  // allows. False when there was nothing to feed.
  bool Step();

 private:
  // A part of a step: whose tokens, and which.
  struct Feed {
    Running* running;
    JobStep step;
  };

  // What the next step feeds.
  void FeedDecodes();
  void FeedPrompts(StepStats& stats);
  void RunPass(std::span<const Feed> feeds, Form form, StepStats& stats);

  const Model& model_;
  EngineObserver& observer_;
  const Options options_;
  StepBudget budget_;
  std::vector<Running> running_;
  std::vector<std::unique_ptr<SequenceState>> free_states_;
  Model::Workspace workspace_;
  std::vector<Feed> decodes_;
  std::vector<Feed> prompts_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_BATCH_H_
