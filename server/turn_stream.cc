#include "server/turn_stream.h"

#include <cassert>
#include <iterator>
#include <type_traits>
#include <utility>

#include "engine/base/error.h"
#include "server/convert.h"

namespace fermata {

TurnStream::TurnStream(Options options, Output* output)
    : options_(std::move(options)), output_(output) {}

void TurnStream::Started(TurnStarted started) {
  const std::lock_guard lock(mutex_);
  if (reader_gone_) return;
  started_ = std::move(started);
  Schedule();
}

void TurnStream::Chunk(TurnChunk chunk) {
  const std::lock_guard lock(mutex_);
  if (reader_gone_) return;
  if (chunk_.has_value()) {
    chunk_->tokens.insert(chunk_->tokens.end(), std::make_move_iterator(chunk.tokens.begin()),
                          std::make_move_iterator(chunk.tokens.end()));
    chunk_->text += chunk.text;
  } else {
    chunk_ = std::move(chunk);
  }
  Schedule();
}

void TurnStream::Completed(TurnResult result) { End(std::move(result)); }

void TurnStream::Failed(absl::Status status) { End(std::move(status)); }

void TurnStream::End(absl::StatusOr<TurnResult> result) {
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  Schedule();
}

bool TurnStream::CanAccept() const {
  const std::lock_guard lock(mutex_);
  return !Full();
}

bool TurnStream::Full() const {
  return chunk_.has_value() &&
         static_cast<int64_t>(chunk_->tokens.size()) >= options_.buffer_tokens;
}

void TurnStream::SetHandle(const std::shared_ptr<RequestHandle>& handle) {
  {
    const std::lock_guard lock(mutex_);
    handle_ = handle;
    if (!reader_gone_) return;
  }
  handle->Cancel();
}

void TurnStream::WriteDone(bool ok) {
  if (!ok) ReaderGone();
  const std::lock_guard lock(mutex_);
  writing_ = false;
  Schedule();
}

void TurnStream::ReaderGone() {
  std::shared_ptr<RequestHandle> handle;
  {
    const std::lock_guard lock(mutex_);
    if (reader_gone_) return;
    reader_gone_ = true;
    started_.reset();
    chunk_.reset();
    handle = handle_.lock();
  }
  if (handle != nullptr) handle->Cancel();
}

void TurnStream::Schedule() {
  const bool something = started_.has_value() || chunk_.has_value() || result_.has_value();
  if (!something || writing_ || scheduled_ || finished_) return;
  scheduled_ = true;
  options_.writer->Post([self = shared_from_this()] { self->Pump(); });
}

void TurnStream::Pump() {
  std::unique_lock lock(mutex_);
  scheduled_ = false;
  // Schedule sees to it, and nothing else writes.
  assert(!writing_ && !finished_);
  if (started_.has_value()) {
    Write(std::move(lock), *std::exchange(started_, std::nullopt));
  } else if (chunk_.has_value()) {
    const bool was_full = Full();
    Write(std::move(lock), *std::exchange(chunk_, std::nullopt));
    if (was_full) options_.wake();
  } else if (result_.has_value()) {
    finished_ = true;
    const bool reader_gone = reader_gone_;
    const absl::StatusOr<TurnResult> result = *std::exchange(result_, std::nullopt);
    lock.unlock();
    Finish(result, reader_gone);
  }
}

template <typename Event>
void TurnStream::Write(std::unique_lock<std::mutex> lock, Event event) {
  writing_ = true;
  lock.unlock();
  message_.Clear();
  if constexpr (std::is_same_v<Event, TurnStarted>) {
    FillStarted(event, options_.model->name, options_.request_id, message_.mutable_started());
  } else {
    FillChunk(event, options_.with_logprobs, message_.mutable_chunk());
  }
  output_->Write(message_);
}

void TurnStream::Finish(const absl::StatusOr<TurnResult>& result, bool reader_gone) {
  options_.ended(result);
  if (!result.ok()) {
    output_->Fail(result.status());
  } else if (reader_gone || result->reason == FinishReason::kCancelled) {
    output_->Fail(MakeError(absl::StatusCode::kCancelled, "the call was cancelled",
                            {.reason = "CANCELLED", .metadata = {}, .retry_after = {}}));
  } else {
    message_.Clear();
    FillComplete(*result, *options_.model, message_.mutable_complete());
    output_->WriteLast(message_);
  }
}

}  // namespace fermata
