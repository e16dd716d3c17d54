#include "server/calls/turn_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

int64_t BytesOf(const TurnChunk& chunk) {
  size_t bytes =
      sizeof(TurnChunk) + chunk.text.capacity() + chunk.tokens.capacity() * sizeof(SampledToken);
  for (const SampledToken& token : chunk.tokens) {
    bytes += token.top.capacity() * sizeof(TokenLogprob);
  }
  return static_cast<int64_t>(bytes);
}

// A turn that ended before its first token leaves its session as it was.
bool HadEffect(const TurnResult& result) {
  return result.generated_tokens > 0 || result.reason == FinishReason::kLength;
}

absl::Status NotKept() {
  return MakeError(absl::StatusCode::kNotFound, "these tokens of the answer are not kept any more",
                   {.reason = "REQUEST_NOT_FOUND", .metadata = {}, .retry_after = {}});
}

}  // namespace

TurnStream::TurnStream(Options options)
    : options_(std::move(options)), keeping_(options_.keeper != nullptr) {}

void TurnStream::Started(TurnStarted started) {
  const std::lock_guard lock(mutex_);
  started_ = std::move(started);
  Schedule();
}

void TurnStream::Chunk(TurnChunk chunk) {
  const std::lock_guard lock(mutex_);
  tokens_ += static_cast<int64_t>(chunk.tokens.size());
  if (keeping_ && !options_.keeper->Add(BytesOf(chunk))) keeping_ = false;
  chunks_.push_back(std::move(chunk));
  if (!keeping_) DropWhatIsRead();
  Schedule();
}

void TurnStream::Completed(TurnResult result) {
  const std::lock_guard lock(mutex_);
  const bool had_effect = HadEffect(result);
  End(std::move(result), had_effect);
}

void TurnStream::Failed(absl::Status status) {
  const std::lock_guard lock(mutex_);
  End(std::move(status), false);
}

void TurnStream::End(absl::StatusOr<TurnResult> result, bool had_effect) {
  result_ = std::move(result);
  if (options_.keeper != nullptr) options_.keeper->Ended(had_effect);
  Schedule();
}

bool TurnStream::CanAccept() const {
  const std::lock_guard lock(mutex_);
  return !Full();
}

bool TurnStream::Full() const {
  const Reader* reader = current();
  return reader != nullptr && tokens_ - reader->sent >= options_.buffer_tokens;
}

void TurnStream::DropWhatIsRead() {
  const Reader* reader = current();
  const int64_t keep_from = reader == nullptr ? end() : reader->next;
  for (; first_ < keep_from; ++first_) chunks_.pop_front();
}

void TurnStream::SetHandle(const std::shared_ptr<RequestHandle>& handle) {
  {
    const std::lock_guard lock(mutex_);
    handle_ = handle;
    if (!cancelled_) return;
  }
  handle->Cancel();
}

TurnStream::Reader* TurnStream::current() {
  return const_cast<Reader*>(std::as_const(*this).current());
}

const TurnStream::Reader* TurnStream::current() const {
  if (readers_.empty()) return nullptr;
  const Reader& last = *readers_.back();
  return last.gone || last.taken_over ? nullptr : &last;
}

TurnStream::Reader* TurnStream::Find(const Output* output) {
  const auto found = std::ranges::find_if(
      readers_, [output](const auto& reader) { return reader->output == output; });
  return found == readers_.end() ? nullptr : found->get();
}

absl::Status TurnStream::Attach(Output* output, int32_t from_index) {
  {
    const std::lock_guard lock(mutex_);
    if (from_index > tokens_) {
      return InvalidField("from_index", absl::StrCat("is beyond the ", tokens_,
                                                     " tokens that have been generated"));
    }
    const int64_t first_token = chunks_.empty() ? tokens_ : chunks_.front().index;
    if (from_index < first_token) return NotKept();
    if (Reader* before = current(); before != nullptr) before->taken_over = true;
    auto reader = std::make_unique<Reader>();
    reader->output = output;
    reader->sent = from_index;
    const auto at = std::ranges::lower_bound(chunks_, from_index, {}, &TurnChunk::index);
    reader->next = first_ + (at - chunks_.begin());
    readers_.push_back(std::move(reader));
    Schedule();
  }
  // The turn may have rested for the reader before.
  options_.wake();
  return absl::OkStatus();
}

void TurnStream::WriteDone(Output* output, bool ok) {
  if (!ok) ReaderGone(output);
  const std::lock_guard lock(mutex_);
  if (Reader* reader = Find(output); reader != nullptr) reader->writing = false;
  Schedule();
}

void TurnStream::ReaderGone(Output* output) {
  std::shared_ptr<RequestHandle> handle;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    Reader* reader = Find(output);
    if (reader == nullptr || reader->gone) return;
    const bool was_read = reader == current();
    reader->gone = true;
    if (was_read) {
      if (!keeping_) DropWhatIsRead();
      wake = options_.runs_without_reader;
      cancelled_ = !wake && !result_.has_value();
      if (cancelled_) handle = handle_.lock();
    }
    Schedule();
  }
  if (handle != nullptr) handle->Cancel();
  if (wake) options_.wake();
}

bool TurnStream::Ready(const Reader& reader) const {
  return !reader.writing &&
         (reader.gone || reader.taken_over || (started_.has_value() && !reader.started) ||
          reader.next < end() || result_.has_value());
}

void TurnStream::Schedule() {
  if (scheduled_) return;
  const bool untold = result_.has_value() && !told_;
  if (!untold && std::ranges::none_of(readers_, [this](const auto& r) { return Ready(*r); })) {
    return;
  }
  scheduled_ = true;
  options_.writer->Post([self = shared_from_this()] { self->Pump(); });
}

void TurnStream::Pump() {
  std::unique_lock lock(mutex_);
  scheduled_ = false;
  while (true) {
    // The end may have come while a message was written.
    if (result_.has_value() && !std::exchange(told_, true)) {
      lock.unlock();
      options_.ended(*result_);
      lock.lock();
    }
    const auto ready = std::ranges::find_if(readers_, [this](const auto& r) { return Ready(*r); });
    if (ready == readers_.end()) return;
    Serve(**ready, lock);
  }
}

void TurnStream::Serve(Reader& reader, std::unique_lock<std::mutex>& lock) {
  Output* const output = reader.output;
  if (!reader.gone && !reader.taken_over) {
    if (started_.has_value() && !std::exchange(reader.started, true)) {
      reader.writing = true;
      v1::GenerateResponse message;
      FillStarted(*started_, options_.model->name, options_.request_id, message.mutable_started());
      lock.unlock();
      output->Write(std::move(message));
      lock.lock();
      return;
    }
    if (reader.next < end()) return WriteChunk(reader, lock);
  }
  const bool gone = reader.gone;
  const bool taken_over = reader.taken_over;
  std::erase_if(readers_, [&reader](const auto& other) { return other.get() == &reader; });
  lock.unlock();
  if (gone) {
    output->Fail(MakeError(absl::StatusCode::kCancelled, "the call was cancelled",
                           {.reason = "CANCELLED", .metadata = {}, .retry_after = {}}));
  } else if (taken_over) {
    output->Fail(MakeError(absl::StatusCode::kAborted, "another call has taken up this turn",
                           {.reason = "REQUEST_TAKEN_UP", .metadata = {}, .retry_after = {}}));
  } else {
    WriteEnd(output);
  }
  lock.lock();
}

void TurnStream::WriteChunk(Reader& reader, std::unique_lock<std::mutex>& lock) {
  const bool was_full = Full();
  std::vector<TurnChunk> taken;
  int64_t tokens = 0;
  for (; reader.next < end() && tokens < options_.buffer_tokens; ++reader.next) {
    TurnChunk& chunk = chunks_[reader.next - first_];
    tokens += static_cast<int64_t>(chunk.tokens.size());
    if (keeping_) {
      taken.push_back(chunk);
    } else {
      taken.push_back(std::move(chunk));
    }
  }
  if (!keeping_) DropWhatIsRead();
  reader.sent += tokens;
  reader.writing = true;
  Output* const output = reader.output;
  lock.unlock();
  v1::GenerateResponse message;
  for (const TurnChunk& chunk : taken) {
    AppendChunk(chunk, options_.with_logprobs, message.mutable_chunk());
  }
  output->Write(std::move(message));
  if (was_full) options_.wake();
  lock.lock();
}

void TurnStream::WriteEnd(Output* output) const {
  if (!result_->ok()) return output->Fail(result_->status());
  v1::GenerateResponse message;
  FillComplete(**result_, *options_.model, message.mutable_complete());
  output->WriteLast(std::move(message));
}

}  // namespace fermata
