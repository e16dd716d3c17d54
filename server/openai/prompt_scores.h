#ifndef FERMATA_SERVER_OPENAI_PROMPT_SCORES_H_
#define FERMATA_SERVER_OPENAI_PROMPT_SCORES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/scheduler/engine.h"
#include "server/http/notifier.h"

namespace fermata {

// Scores texts for one coroutine. When it goes, or Cancel is called, what has not ended stops.
class PromptScores {
 public:
  explicit PromptScores(const boost::asio::any_io_executor& executor);
  ~PromptScores();

  // Begins to score one; they are numbered in the order of their starts.
  absl::Status Start(Engine& engine, ScoreRequest request);
  // Until all have ended, at most for `patience`; whether they have.
  Awaitable<bool> Wait(absl::Duration patience);
  // Once all have ended.
  absl::StatusOr<ScoreResult> Take(size_t index);
  void Cancel();

 private:
  struct Shared;

  Notifier notifier_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<RequestHandle>> handles_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_PROMPT_SCORES_H_
