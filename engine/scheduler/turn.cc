#include "engine/scheduler/turn.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

std::span<std::byte> StateBytes(SequenceState& state) {
  return std::as_writable_bytes(state.fixed.span());
}

absl::Duration Between(Clock::time_point from, Clock::time_point to) {
  return absl::FromChrono(to - from);
}

}  // namespace

Turn::Turn(TurnRequest request, std::shared_ptr<TurnSink> sink, SessionStore::Lease lease,
           const Parts& parts)
    : Job(request.request_id, request.claim, request.time_limit, parts.hooks),
      request_(std::move(request)),
      sink_(std::move(sink)),
      parts_(parts),
      lease_(std::move(lease)),
      sampling_(request_.sampling),
      decoder_(*parts.tokenizer),
      stops_(request_.sampling.stop) {
  if (!request_.ignore_eos) {
    const auto& eos = parts_.model->info().eos_token_ids;
    sampling_.stop_token_ids.insert(sampling_.stop_token_ids.end(), eos.begin(), eos.end());
  }
}

absl::Status Turn::Prepare() {
  if (lease_.valid()) {
    const SessionRecord& record = lease_.record();
    FERMATA_ASSIGN_OR_RETURN(memory_, SamplerMemory::Parse(record.sampler_memory));
    if (record.pending_token.has_value()) tokens_.push_back(*record.pending_token);
  }
  // Every sequence that has tokens has a pending one.
  const std::vector<int32_t> prompt =
      EncodePrompt(*parts_.tokenizer, request_.prompt,
                   tokens_.empty() ? TextPlace::kStart : TextPlace::kContinuation);
  tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
  if (tokens_.empty()) {
    return InvalidField("prompt", "a sequence that has no tokens yet needs at least one");
  }
  prompt_tokens_ = static_cast<int32_t>(prompt.size());
  for (const int32_t token : prompt) memory_.Append(token);
  const bool begins = !lease_.valid() || !lease_.record().pending_token.has_value();
  if (parts_.prefixes != nullptr && begins && prompt_tokens_ >= kMinPrefixTokens) {
    prefix_.emplace(parts_.prefixes, claim().tenant, tokens_, parts_.prefill_form);
  }
  return absl::OkStatus();
}

absl::Status Turn::Start(SequenceState* state) {
  if (lease_.valid()) {
    FERMATA_RETURN_IF_ERROR(lease_.ReadState(StateBytes(*state)));
    state->position = lease_.record().position;
  }
  state_ = state;
  start_ = Clock::now();
  if (prefix_.has_value()) {
    consumed_ = prefix_->Restore(*state_);
    cached_tokens_ = static_cast<int32_t>(consumed_);
  }
  SendStarted();
  // With nothing to generate and nothing to consume before the last token, there is no step.
  if (sampling_.max_new_tokens == 0 && PromptLeft() == 0) Complete(FinishReason::kLength);
  return absl::OkStatus();
}

void Turn::SendStarted() {
  TurnStarted started;
  if (lease_.valid()) {
    started.session_id = lease_.record().id;
    started.position = lease_.record().position;
  }
  sink_->Started(std::move(started));
}

int64_t Turn::PromptLeft() const {
  if (generated_ > 0) return 0;
  // The last token stays pending when nothing is to be generated from it.
  const int64_t kept = sampling_.max_new_tokens == 0 ? 1 : 0;
  const int64_t end = static_cast<int64_t>(tokens_.size()) - kept;
  return (prefix_.has_value() ? std::min(end, prefix_->NextCut(consumed_)) : end) - consumed_;
}

JobStep Turn::Next(int64_t prompt_tokens) {
  if (generated_ > 0) {
    if (!sink_->CanAccept()) return {};
    feeding_ = 1;
    return {.tokens = tokens_, .logits = SequenceStep::Logits::kLast, .decode = true};
  }
  feeding_ = std::min(PromptLeft(), prompt_tokens);
  const bool last_piece = consumed_ + feeding_ == static_cast<int64_t>(tokens_.size());
  return {.tokens = std::span(tokens_).subspan(consumed_, feeding_),
          .logits = last_piece ? SequenceStep::Logits::kLast : SequenceStep::Logits::kNone,
          .decode = false};
}

void Turn::TakeLogits(int64_t, std::span<const float> logits) {
  sampled_ = Sample(logits, sampling_, memory_, state_->position, Armed());
}

void Turn::Advance() {
  consumed_ += feeding_;
  if (prefix_.has_value() && generated_ == 0) prefix_->PromptConsumed(consumed_, *state_);
  if (sampled_.has_value()) {
    TakeUp(*std::exchange(sampled_, std::nullopt));
  } else if (sampling_.max_new_tokens == 0 && PromptLeft() == 0) {
    Complete(FinishReason::kLength);
  }
}

void Turn::TakeUp(SampledToken sampled) {
  const bool armed = Armed();
  const int32_t token = sampled.token;
  tokens_.assign(1, token);
  consumed_ = 0;
  memory_.Append(token);
  if (prefix_.has_value()) prefix_->Append(token);
  ++generated_;
  RecordTokenTime();

  if (IsStopToken(token)) {
    std::string text = stops_.Append(decoder_.Finish(), armed).text + stops_.Finish();
    Send(std::move(sampled), std::move(text));
    Complete(FinishReason::kStopToken);
    return;
  }
  StopMatcher::Result result = stops_.Append(decoder_.Append(token), armed);
  if (!result.matched.has_value() && generated_ == sampling_.max_new_tokens) {
    // The text's last characters can still complete a stop string.
    StopMatcher::Result tail = stops_.Append(decoder_.Finish(), armed);
    result.text += tail.text;
    result.matched = std::move(tail.matched);
    if (!result.matched.has_value()) result.text += stops_.Finish();
  }
  const bool matched = result.matched.has_value();
  if (matched) matched_stop_ = *std::move(result.matched);
  Send(std::move(sampled), std::move(result.text));
  if (matched) {
    Complete(FinishReason::kStop);
  } else if (generated_ == sampling_.max_new_tokens) {
    Complete(FinishReason::kLength);
  }
}

bool Turn::IsStopToken(int32_t token) const {
  return std::ranges::find(sampling_.stop_token_ids, token) != sampling_.stop_token_ids.end();
}

void Turn::Send(SampledToken token, std::string text) {
  TurnChunk chunk;
  chunk.index = generated_ - 1;
  chunk.position = state_->position;
  chunk.tokens.push_back(std::move(token));
  chunk.text = std::move(text);
  sink_->Chunk(std::move(chunk));
}

void Turn::RecordTokenTime() {
  const Clock::time_point now = Clock::now();
  if (!first_token_.has_value()) {
    first_token_ = now;
    parts_.observer->FirstToken(Between(arrival(), now));
  } else {
    parts_.observer->TokenSampled(Between(*last_token_, now));
  }
  last_token_ = now;
}

void Turn::Stop(FinishReason reason) {
  if (!start_.has_value()) SendStarted();
  if (generated_ > 0) {
    StopMatcher::Result tail = stops_.Append(decoder_.Finish(), false);
    std::string text = tail.text + stops_.Finish();
    if (!text.empty()) {
      TurnChunk chunk;
      chunk.index = generated_;
      chunk.position = state_->position + 1;
      chunk.text = std::move(text);
      sink_->Chunk(std::move(chunk));
    }
  }
  Complete(reason);
}

void Turn::Complete(FinishReason reason) {
  TurnResult result;
  result.reason = reason;
  result.priority = claim().priority;
  result.matched_stop = matched_stop_;
  result.prompt_tokens = prompt_tokens_;
  result.generated_tokens = generated_;
  result.cached_tokens = cached_tokens_;
  result.seed = sampling_.seed;
  const bool prompt_consumed =
      generated_ > 0 ||
      (state_ != nullptr && sampling_.max_new_tokens == 0 && reason == FinishReason::kLength);
  done_ = true;
  if (!lease_.valid() || !prompt_consumed) {
    if (lease_.valid() && !lease_.creates()) result.session = lease_.record();
    // Whoever resumes a session by its id does not bring its text again.
    if (!lease_.valid() && prefix_.has_value() && generated_ > 0) prefix_->KeepAnswer(*state_);
    lease_ = SessionStore::Lease();
    TellCompleted(std::move(result));
    return;
  }
  SessionRecord record = lease_.record();
  record.position = state_->position;
  record.pending_token = tokens_.back();
  record.sampler_memory = memory_.Serialize();
  lease_.Commit(record, StateBytes(*state_),
                [self = shared_from_this(),
                 result = std::move(result)](absl::StatusOr<SessionRecord> committed) mutable {
                  if (!committed.ok()) {
                    self->TellFailed(committed.status());
                    return;
                  }
                  result.session = *std::move(committed);
                  self->TellCompleted(std::move(result));
                });
}

void Turn::TellCompleted(TurnResult result) {
  result.timings = Timings();
  parts_.observer->TurnCompleted(request_id(), result);
  End([&] { sink_->Completed(std::move(result)); });
}

void Turn::Fail(absl::Status status) {
  lease_ = SessionStore::Lease();
  done_ = true;
  TellFailed(std::move(status));
}

void Turn::TellFailed(absl::Status status) {
  parts_.observer->RequestFailed(request_id(), status);
  End([&] { sink_->Failed(std::move(status)); });
}

TurnTimings Turn::Timings() const {
  const Clock::time_point now = Clock::now();
  TurnTimings timings;
  timings.queue = Between(arrival(), start_.value_or(now));
  if (start_.has_value()) timings.prefill = Between(*start_, first_token_.value_or(now));
  if (first_token_.has_value()) {
    timings.time_to_first_token = Between(arrival(), *first_token_);
    timings.decode = Between(*first_token_, *last_token_);
  }
  timings.total = Between(arrival(), now);
  return timings;
}

}  // namespace fermata
