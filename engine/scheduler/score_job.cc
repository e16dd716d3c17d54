#include "engine/scheduler/score_job.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace fermata {

ScoreJob::ScoreJob(ScoreRequest request, Engine::ScoreCallback callback, const Parts& parts)
    : Job(request.request_id, request.claim, absl::InfiniteDuration(), parts.hooks),
      request_(std::move(request)),
      callback_(std::move(callback)),
      parts_(parts) {}

absl::Status ScoreJob::Prepare() {
  const Tokenizer& tokenizer = *parts_.tokenizer;
  const Prompt& input = request_.input;
  if (request_.context.empty()) {
    // A text with no context has what begins a sequence for one.
    if (!input.text.empty()) tokens_ = tokenizer.start_ids();
    result_.token_ids = input.text.empty()
                            ? input.token_ids
                            : tokenizer.Encode(input.text, input.parse_special, TextPlace::kStart);
  } else {
    tokens_ = EncodePrompt(tokenizer, request_.context, TextPlace::kStart);
    result_.token_ids = EncodePrompt(tokenizer, input, TextPlace::kContinuation);
  }
  if (result_.token_ids.empty()) return InvalidField("input", "there is no token to score");
  first_scored_ = std::max<int64_t>(static_cast<int64_t>(tokens_.size()), 1);
  tokens_.insert(tokens_.end(), result_.token_ids.begin(), result_.token_ids.end());
  return absl::OkStatus();
}

absl::Status ScoreJob::Start(SequenceState*) {
  if (first_scored_ == static_cast<int64_t>(tokens_.size())) Complete();
  return absl::OkStatus();
}

int64_t ScoreJob::PromptLeft() const {
  // What follows the last token is nobody's question, so it is not consumed. A step scores all of
  // its rows or none: the first row whose next token is scored begins a step.
  const int64_t end = Scores() ? static_cast<int64_t>(tokens_.size()) - 1 : first_scored_ - 1;
  return end - consumed_;
}

JobStep ScoreJob::Next(int64_t prompt_tokens) {
  feeding_ = std::min(PromptLeft(), prompt_tokens);
  step_.clear();
  if (Scores()) step_.resize(feeding_);
  return {.tokens = std::span(tokens_).subspan(consumed_, feeding_),
          .logits = Scores() ? SequenceStep::Logits::kAll : SequenceStep::Logits::kNone,
          .decode = false};
}

void ScoreJob::TakeLogits(int64_t row, std::span<const float> logits) {
  step_[row] = ScoreToken(logits, tokens_[consumed_ + row + 1], request_.top_logprobs);
}

void ScoreJob::Advance() {
  for (SampledToken& scored : step_) {
    result_.total_logprob += scored.logprob;
    result_.scored_bytes += static_cast<int64_t>(parts_.tokenizer->TokenBytes(scored.token).size());
    result_.tokens.push_back(std::move(scored));
  }
  consumed_ += feeding_;
  if (consumed_ + 1 == static_cast<int64_t>(tokens_.size())) Complete();
}

void ScoreJob::Complete() {
  done_ = true;
  parts_.observer->ScoreCompleted(request_id(), static_cast<int64_t>(result_.tokens.size()));
  End([this] { callback_(std::move(result_)); });
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
  End([&] { callback_(std::move(status)); });
}

}  // namespace fermata
