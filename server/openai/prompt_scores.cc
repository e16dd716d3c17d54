#include "server/openai/prompt_scores.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/base/status.h"

namespace fermata {

// Where the engine's thread leaves the results.
struct PromptScores::Shared {
  std::mutex mutex;
  std::vector<std::optional<absl::StatusOr<ScoreResult>>> results;
  std::function<void()> notify;

  bool done() {
    const std::lock_guard lock(mutex);
    return std::ranges::all_of(results, [](const auto& result) { return result.has_value(); });
  }
};

PromptScores::PromptScores(const boost::asio::any_io_executor& executor)
    : notifier_(executor), shared_(std::make_shared<Shared>()) {
  shared_->notify = notifier_.notify();
}

PromptScores::~PromptScores() { Cancel(); }

absl::Status PromptScores::Start(Engine& engine, ScoreRequest request) {
  size_t index;
  {
    const std::lock_guard lock(shared_->mutex);
    index = shared_->results.size();
    shared_->results.emplace_back();
  }
  const auto done = [shared = shared_, index](absl::StatusOr<ScoreResult> result) {
    {
      const std::lock_guard lock(shared->mutex);
      shared->results[index] = std::move(result);
    }
    shared->notify();
  };
  FERMATA_ASSIGN_OR_RETURN(auto handle, engine.Score(std::move(request), done));
  handles_.push_back(std::move(handle));
  return absl::OkStatus();
}

Awaitable<bool> PromptScores::Wait(absl::Duration patience) {
  while (!shared_->done()) {
    const bool notified = co_await notifier_.Wait(patience);
    if (!notified) co_return false;
  }
  co_return true;
}

absl::StatusOr<ScoreResult> PromptScores::Take(size_t index) {
  const std::lock_guard lock(shared_->mutex);
  return *std::exchange(shared_->results[index], std::nullopt);
}

void PromptScores::Cancel() {
  for (const auto& handle : handles_) handle->Cancel();
}

}  // namespace fermata
