#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "server/openai/call.h"

namespace fermata {
namespace {

ScoredToken ToScored(const v1::TokenLogprobs& token) {
  ScoredToken scored{.id = token.token_id(), .logprob = token.logprob(), .top = {}};
  for (const v1::TopLogprob& top : token.top()) {
    scored.top.emplace_back(top.token_id(), top.logprob());
  }
  return scored;
}

// Whether the turn that was to read a prompt has come to its end.
absl::Status PromptRead(v1::FinishReason reason) {
  if (reason == v1::LENGTH) return absl::OkStatus();
  if (reason == v1::DRAINED) {
    return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                     {.reason = "DRAINING", .metadata = {}, .retry_after = {}});
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   "the time limit passed before the prompt was read",
                   {.reason = "TIME_LIMIT", .metadata = {}, .retry_after = {}});
}

}  // namespace

Awaitable<absl::Status> OpenAiCall::Take(const TurnEvent& event) {
  if (const auto* failure = std::get_if<absl::Status>(&event.what)) co_return *failure;
  const auto& response = std::get<v1::GenerateResponse>(event.what);
  if (turns_[event.turn] >= candidates_.size()) {  // One that reads a prompt for others.
    if (!response.has_complete()) co_return absl::OkStatus();
    usage_.prompt_tokens += response.complete().usage().prompt_tokens();
    usage_.cached_tokens += response.complete().usage().cached_tokens();
    co_return PromptRead(response.complete().finish_reason());
  }
  Candidate& candidate = candidates_[turns_[event.turn]];
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted: {
      if (!candidate.sends) co_return absl::OkStatus();
      const bool begun = co_await writer_->Announce(candidate.piece.index);
      if (begun) co_return co_await SendEcho(candidate);
      co_return absl::CancelledError();
    }
    case v1::GenerateResponse::kChunk:
      co_return co_await TakeChunk(response.chunk(), candidate);
    case v1::GenerateResponse::kComplete:
      co_return co_await TakeComplete(response.complete(), candidate);
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::TakeChunk(const v1::Chunk& chunk, Candidate& candidate) {
  ReplyPiece piece;
  piece.index = candidate.piece.index;
  piece.text = chunk.text();
  if (!candidate.lead_gone && !piece.text.empty()) {
    if (piece.text.starts_with(request_->lead)) piece.text.erase(0, request_->lead.size());
    candidate.lead_gone = true;
  }
  for (const v1::TokenLogprobs& token : chunk.logprobs()) {
    candidate.logprob += token.logprob();
    if (!request_->logprobs.has_value()) continue;
    piece.tokens.push_back(ToScored(token));
    if (!request_->stream) kept_ += 1 + piece.tokens.back().top.size();
  }
  if (kept_ > kMaxLogprobsKept) {
    co_return MakeError(
        absl::StatusCode::kResourceExhausted,
        "these are too many log-probabilities for one answer: stream it, or ask for fewer",
        {.reason = "RESPONSE_TOO_LARGE", .metadata = {}, .retry_after = {}});
  }
  candidate.generated += chunk.token_ids_size();
  if (!candidate.sends) {
    candidate.piece.Append(std::move(piece));
    co_return absl::OkStatus();
  }
  if (piece.text.empty() && piece.tokens.empty()) co_return absl::OkStatus();
  co_return co_await Send(std::move(piece));
}

Awaitable<absl::Status> OpenAiCall::TakeComplete(const v1::Complete& complete,
                                                 Candidate& candidate) {
  complete_ = complete;
  usage_.completion_tokens += complete.usage().generated_tokens();
  if (candidate.counts) {
    usage_.prompt_tokens += complete.usage().prompt_tokens();
    usage_.cached_tokens += complete.usage().cached_tokens();
  }
  if (!request_->session().empty() && complete.has_session()) session_ = complete.session();
  ReplyPiece piece;
  piece.index = candidate.piece.index;
  piece.finish = complete.finish_reason();
  if (candidate.sends) co_return co_await Send(std::move(piece));
  candidate.piece.Append(std::move(piece));
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::Send(ReplyPiece piece) {
  const bool sent = co_await writer_->Add(std::move(piece));
  if (sent) co_return absl::OkStatus();
  co_return absl::CancelledError();
}

Awaitable<absl::Status> OpenAiCall::SendEcho(const Candidate& candidate) {
  if (!request_->echo) co_return absl::OkStatus();
  ReplyPiece piece;
  piece.index = candidate.piece.index;
  piece.text = request_->prompts[candidate.prompt].text;
  if (!echoes_.empty()) piece.tokens = echoes_[candidate.prompt];
  co_return co_await Send(std::move(piece));
}

Awaitable<absl::Status> OpenAiCall::SendBest(size_t first) {
  const auto mean = [this](size_t i) {
    const Candidate& candidate = candidates_[i];
    return candidate.logprob / static_cast<double>(std::max<int64_t>(candidate.generated, 1));
  };
  std::vector<size_t> order(request_->best_of);
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return mean(a) > mean(b); });
  for (int rank = 0; rank < request_->n; ++rank) {
    Candidate& candidate = candidates_[order[rank]];
    candidate.piece.index = static_cast<int>(candidate.prompt) * request_->n + rank;
    const absl::Status echoed = co_await SendEcho(candidate);
    if (!echoed.ok()) co_return echoed;
    const absl::Status sent = co_await Send(std::move(candidate.piece));
    if (!sent.ok()) co_return sent;
  }
  co_return absl::OkStatus();
}

}  // namespace fermata
