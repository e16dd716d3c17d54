#include "server/openai/call.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "server/openai/temporary_sessions.h"

namespace fermata {
namespace {

// Turns, or texts that are scored, of one request at a time: others want their turn too.
constexpr size_t kAtOnce = 16;
static_assert(kAtOnce >= kMaxChoices);
constexpr size_t kNoCandidate = std::numeric_limits<size_t>::max();

absl::Status Gone() { return absl::CancelledError("the client is gone"); }

void SetPrompt(const Prompt& prompt, v1::GenerateRequest& turn) {
  if (!prompt.text.empty()) {
    turn.set_text(prompt.text);
  } else if (!prompt.token_ids.empty()) {
    turn.mutable_token_ids()->mutable_ids()->Add(prompt.token_ids.begin(), prompt.token_ids.end());
  }
}

}  // namespace

void OpenAiCall::Cancel() {
  gone_ = true;
  inbox_.Cancel();
  scores_.Cancel();
}

Awaitable<absl::Status> OpenAiCall::Run(const OpenAiRequest& request, ReplyWriter& writer) {
  request_ = &request;
  writer_ = &writer;
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (!runtime.ok()) co_return runtime.status();
  if (request.scores_prompts()) {
    const absl::Status scored = co_await ScorePrompts((*runtime)->engine());
    if (!scored.ok()) co_return scored;
    if (request.turn.sampling().max_new_tokens() == 0) co_return co_await AnswerFromScores();
  }
  if (request.best_of == 1 || !(*runtime)->model().fixed_size_state) {
    co_return co_await RunSeparately();
  }
  for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
    const absl::Status ran = co_await RunForks(prompt);
    if (!ran.ok()) co_return ran;
  }
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::RunSeparately() {
  std::vector<v1::GenerateRequest> requests;
  for (size_t prompt = 0; prompt < request_->prompts.size(); ++prompt) {
    for (int i = 0; i < request_->best_of; ++i) {
      const size_t candidate = AddCandidate(prompt, i);
      candidates_[candidate].counts = i == 0;
      v1::GenerateRequest turn = TurnFor(i);
      SetPrompt(request_->prompts[prompt].prompt, turn);
      requests.push_back(std::move(turn));
    }
  }
  const absl::Status ran = co_await RunTurns(0, std::move(requests));
  if (!ran.ok() || !picks_best()) co_return ran;
  for (size_t first = 0; first < candidates_.size(); first += request_->best_of) {
    const absl::Status sent = co_await SendBest(first);
    if (!sent.ok()) co_return sent;
  }
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::RunForks(size_t prompt) {
  TemporarySessions sessions(front_, exchange_);
  absl::Status status = co_await sessions.Create();
  if (status.ok()) status = co_await ReadPrompt(prompt, sessions.ids().front());
  if (status.ok()) status = co_await sessions.Fork(request_->best_of);
  if (status.ok()) status = co_await RunOnForks(prompt, sessions.ids());
  if (!status.ok()) inbox_.Cancel();  // What still runs must end before its session can go.
  co_await sessions.Delete();
  co_return status;
}

Awaitable<absl::Status> OpenAiCall::ReadPrompt(size_t prompt, const std::string& session) {
  v1::GenerateRequest turn = TurnFor(0);
  turn.clear_sampling();
  turn.mutable_sampling()->set_max_new_tokens(0);
  turn.mutable_session()->set_id(session);
  SetPrompt(request_->prompts[prompt].prompt, turn);
  if (gone_) co_return Gone();
  const absl::Status started = inbox_.Start(turn);
  if (!started.ok()) co_return started;
  turns_.push_back(kNoCandidate);
  while (!inbox_.done()) {
    const absl::StatusOr<bool> ended = co_await TakeNext();
    if (!ended.ok()) co_return ended.status();
  }
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::RunOnForks(size_t prompt,
                                               const std::vector<std::string>& sessions) {
  const size_t first = candidates_.size();
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < request_->best_of; ++i) {
    AddCandidate(prompt, i);
    v1::GenerateRequest turn = TurnFor(i);
    turn.mutable_session()->set_id(sessions[i]);
    requests.push_back(std::move(turn));
  }
  const absl::Status ran = co_await RunTurns(first, std::move(requests));
  if (!ran.ok() || !picks_best()) co_return ran;
  co_return co_await SendBest(first);
}

Awaitable<absl::Status> OpenAiCall::RunTurns(size_t first,
                                             std::vector<v1::GenerateRequest> requests) {
  size_t next = 0;
  const size_t turns_before = turns_.size();
  size_t done = 0;
  while (done < requests.size()) {
    while (next < requests.size() && turns_.size() - turns_before - done < kAtOnce) {
      if (gone_) co_return Gone();
      const absl::Status started = inbox_.Start(requests[next]);
      if (!started.ok()) co_return started;
      turns_.push_back(first + next++);
    }
    const absl::StatusOr<bool> ended = co_await TakeNext();
    if (!ended.ok()) co_return ended.status();
    if (*ended) ++done;
  }
  co_return absl::OkStatus();
}

Awaitable<absl::StatusOr<bool>> OpenAiCall::TakeNext() {
  std::optional<TurnEvent> event = co_await inbox_.Next(ping_interval_);
  while (!event.has_value()) {
    const bool pinged = co_await writer_->Ping();
    if (!pinged) co_return Gone();
    event = co_await inbox_.Next(ping_interval_);
  }
  const absl::Status taken = co_await Take(*event);
  if (!taken.ok()) co_return taken;
  const auto* response = std::get_if<v1::GenerateResponse>(&event->what);
  co_return response != nullptr && response->has_complete();
}

size_t OpenAiCall::AddCandidate(size_t prompt, int index) {
  Candidate candidate;
  candidate.prompt = prompt;
  candidate.sends = !picks_best();
  candidate.lead_gone = request_->lead.empty();
  candidate.piece.index = static_cast<int>(prompt) * request_->n + index;
  candidates_.push_back(std::move(candidate));
  return candidates_.size() - 1;
}

v1::GenerateRequest OpenAiCall::TurnFor(int index) const {
  v1::GenerateRequest turn = request_->turn;
  v1::SamplingParams& sampling = *turn.mutable_sampling();
  if (sampling.has_seed()) sampling.set_seed(SeedOf(sampling.seed(), index));
  if (picks_best() && !sampling.has_logprobs()) sampling.set_logprobs(0);
  return turn;
}

Awaitable<absl::Status> OpenAiCall::ScorePrompts(Engine& engine) {
  const size_t count = request_->prompts.size();
  size_t told = 0;
  for (const OpenAiPrompt& prompt : request_->prompts) told += prompt.scored.size();
  told *= static_cast<size_t>(1 + *request_->logprobs) * request_->n;
  if (told > kMaxLogprobsKept) {
    co_return InvalidField("logprobs", "are too many for prompts of this length");
  }
  for (size_t i = 0; i < count; ++i) {
    if (gone_) co_return Gone();
    const OpenAiPrompt& prompt = request_->prompts[i];
    ScoreRequest score;
    score.claim = {.priority = request_->turn.priority(), .tenant = request_->turn.tenant()};
    score.context.token_ids = prompt.start;
    score.input.token_ids = prompt.scored;
    score.top_logprobs = *request_->logprobs;
    const absl::Status started = scores_.Start(engine, std::move(score));
    if (!started.ok()) co_return started;
    if ((i + 1) % kAtOnce != 0 && i + 1 < count) continue;
    while (true) {
      const bool done = co_await scores_.Wait(ping_interval_);
      if (done) break;
      const bool pinged = co_await writer_->Ping();
      if (!pinged) co_return Gone();
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const absl::StatusOr<ScoreResult> result = scores_.Take(i);
    if (!result.ok()) co_return result.status();
    std::vector<ScoredToken> echo;
    // The first of a text that nothing precedes has no log-probability.
    if (result->tokens.size() < result->token_ids.size()) {
      echo.push_back({.id = result->token_ids.front(), .logprob = {}, .top = {}});
    }
    for (const SampledToken& token : result->tokens) {
      ScoredToken scored{.id = token.token, .logprob = token.logprob, .top = {}};
      for (const TokenLogprob& top : token.top) scored.top.emplace_back(top.token, top.logprob);
      echo.push_back(std::move(scored));
    }
    echoes_.push_back(std::move(echo));
  }
  co_return absl::OkStatus();
}

Awaitable<absl::Status> OpenAiCall::AnswerFromScores() {
  for (size_t prompt = 0; prompt < request_->prompts.size(); ++prompt) {
    const OpenAiPrompt& given = request_->prompts[prompt];
    usage_.prompt_tokens += static_cast<int64_t>(given.start.size() + given.scored.size());
    for (int i = 0; i < request_->n; ++i) {
      Candidate candidate;
      candidate.prompt = prompt;
      candidate.piece.index = static_cast<int>(prompt) * request_->n + i;
      const absl::Status echoed = co_await SendEcho(candidate);
      if (!echoed.ok()) co_return echoed;
      candidate.piece.finish = v1::LENGTH;
      const absl::Status sent = co_await Send(std::move(candidate.piece));
      if (!sent.ok()) co_return sent;
    }
  }
  co_return absl::OkStatus();
}

}  // namespace fermata
