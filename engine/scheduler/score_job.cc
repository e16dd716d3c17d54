#include "engine/scheduler/score_job.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace fermata {

ScoreJob::ScoreJob(ScoreRequest request, Engine::ScoreCallback callback, const Parts& parts)
    : Job(request.request_id, absl::InfiniteDuration(), parts.hooks),
      request_(std::move(request)),
      callback_(std::move(callback)),
      parts_(parts) {}

absl::Status ScoreJob::Prepare() {
  const Tokenizer& tokenizer = *parts_.tokenizer;
  tokens_ = EncodePrompt(tokenizer, request_.context, TextPlace::kStart);
  // A text with no context has what begins a sequence for one.
  if (tokens_.empty() && !request_.input.text.empty()) tokens_ = tokenizer.start_ids();
  result_.token_ids =
      EncodePrompt(tokenizer, request_.input,
                   request_.context.empty() ? TextPlace::kStart : TextPlace::kContinuation);
  if (result_.token_ids.empty()) return InvalidField("input", "there is no token to score");
  first_scored_ = std::max<int64_t>(static_cast<int64_t>(tokens_.size()), 1);
  tokens_.insert(tokens_.end(), result_.token_ids.begin(), result_.token_ids.end());
  return absl::OkStatus();
}

absl::Status ScoreJob::Start(SequenceState*) {
  if (first_scored_ == static_cast<int64_t>(tokens_.size())) Complete();
  return absl::OkStatus();
}

JobStep ScoreJob::Next(int64_t prompt_budget) {
  // What follows the last token is nobody's question, so it is not consumed. A step scores all of
  // its rows or none: the first row whose next token is scored begins a step.
  const bool scores = consumed_ + 1 >= first_scored_;
  const int64_t end = scores ? static_cast<int64_t>(tokens_.size()) - 1 : first_scored_ - 1;
  feeding_ = std::min(end - consumed_, prompt_budget);
  return {.tokens = std::span(tokens_).subspan(consumed_, feeding_),
          .logits = scores ? SequenceStep::Logits::kAll : SequenceStep::Logits::kNone,
          .decode = false};
}

void ScoreJob::Advance(std::span<const float> logits) {
  if (!logits.empty()) {
    const size_t vocab_size = logits.size() / feeding_;
    for (int64_t row = 0; row < feeding_; ++row) {
      const int32_t token = tokens_[consumed_ + row + 1];
      result_.tokens.push_back(
          ScoreToken(logits.subspan(row * vocab_size, vocab_size), token, request_.top_logprobs));
      result_.total_logprob += result_.tokens.back().logprob;
      result_.scored_bytes += static_cast<int64_t>(parts_.tokenizer->TokenBytes(token).size());
    }
  }
  consumed_ += feeding_;
  if (consumed_ + 1 == static_cast<int64_t>(tokens_.size())) Complete();
}

void ScoreJob::Complete() {
  done_ = true;
  parts_.observer->ScoreCompleted(request_id(), static_cast<int64_t>(result_.tokens.size()));
  ReleasePlace();
  callback_(std::move(result_));
}

void ScoreJob::Stop(FinishReason reason) {
  if (reason == FinishReason::kDrained) {
    Fail(DrainingError());
  } else {
    Fail(absl::CancelledError("cancelled by the client"));
  }
}

void ScoreJob::Fail(absl::Status status) {
  done_ = true;
  parts_.observer->RequestFailed(request_id(), status);
  ReleasePlace();
  callback_(std::move(status));
}

}  // namespace fermata
