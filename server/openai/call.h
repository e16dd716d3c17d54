#ifndef FERMATA_SERVER_OPENAI_CALL_H_
#define FERMATA_SERVER_OPENAI_CALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/calls/front.h"
#include "server/http/exchange.h"
#include "server/http/turn_inbox.h"
#include "server/openai/openai_request.h"
#include "server/openai/prompt_scores.h"
#include "server/openai/reply.h"
#include "server/openai/reply_writer.h"

namespace fermata {

// Runs the turns of one request, and gives what they say to the writer of its answer.
class OpenAiCall {
 public:
  // Both must outlive it. `ping_interval` is how long nothing may be sent while the client waits.
  OpenAiCall(const Front& front, HttpExchange& exchange, const TraceContext& trace,
             absl::Duration ping_interval)
      : front_(front),
        exchange_(exchange),
        ping_interval_(ping_interval),
        inbox_(front, exchange.executor(), trace),
        scores_(exchange.executor()) {}

  // The client is gone: all turns lose their reader.
  void Cancel();

  // To the end of the answer, but for that end itself, which is the caller's to send: OK, or why there
  // is none. CANCELLED when the client is gone.
  Awaitable<absl::Status> Run(const OpenAiRequest& request, ReplyWriter& writer);

  const ReplyUsage& usage() const { return usage_; }
  const std::optional<v1::SessionAfter>& session() const { return session_; }
  // How the last turn ended; null before any has.
  const v1::Complete* complete() const { return complete_.has_value() ? &*complete_ : nullptr; }

 private:
  // A text that is being generated: a choice, or one of those that the best are taken of.
  struct Candidate {
    size_t prompt = 0;
    bool sends = true;    // Its pieces go to the writer as they come.
    bool counts = false;  // Its turn's prompt is the request's.
    bool lead_gone = false;
    double logprob = 0;  // Sum over `generated` tokens.
    int64_t generated = 0;
    ReplyPiece piece;  // What was kept of it; its index is the choice's.
  };

  Awaitable<absl::Status> ScorePrompts(Engine& engine);
  Awaitable<absl::Status> AnswerFromScores();
  // Each candidate of all prompts by a turn that reads the prompt.
  Awaitable<absl::Status> RunSeparately();
  // The candidates of one prompt as forks of a session that has read it.
  Awaitable<absl::Status> RunForks(size_t prompt);
  Awaitable<absl::Status> RunOnForks(size_t prompt, const std::vector<std::string>& sessions);
  Awaitable<absl::Status> ReadPrompt(size_t prompt, const std::string& session);

  // Runs turns, `requests[i]` for `candidates_[first + i]`, some at a time.
  Awaitable<absl::Status> RunTurns(size_t first, std::vector<v1::GenerateRequest> requests);
  // Waits for the next event of a turn that runs, and takes it. Whether a turn was complete by it.
  Awaitable<absl::StatusOr<bool>> TakeNext();
  Awaitable<absl::Status> Take(const TurnEvent& event);
  Awaitable<absl::Status> TakeChunk(const v1::Chunk& chunk, Candidate& candidate);
  Awaitable<absl::Status> TakeComplete(const v1::Complete& complete, Candidate& candidate);
  Awaitable<absl::Status> Send(ReplyPiece piece);
  Awaitable<absl::Status> SendEcho(const Candidate& candidate);
  // Of a prompt's candidates, which have all ended, the best.
  Awaitable<absl::Status> SendBest(size_t first);

  size_t AddCandidate(size_t prompt, int index);
  v1::GenerateRequest TurnFor(int index) const;
  bool picks_best() const { return request_->best_of > request_->n; }

  const Front& front_;
  HttpExchange& exchange_;
  const absl::Duration ping_interval_;
  TurnInbox inbox_;
  PromptScores scores_;
  bool gone_ = false;

  const OpenAiRequest* request_ = nullptr;
  ReplyWriter* writer_ = nullptr;
  std::vector<std::vector<ScoredToken>> echoes_;  // By prompt.
  std::vector<Candidate> candidates_;
  size_t kept_ = 0;            // Log-probabilities that wait for the answer's end.
  std::vector<size_t> turns_;  // Of the inbox's turns, whose candidate each is.
  ReplyUsage usage_;
  std::optional<v1::SessionAfter> session_;
  std::optional<v1::Complete> complete_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CALL_H_
