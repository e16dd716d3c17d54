#include "server/http/turn_inbox.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/base/status.h"
#include "server/calls/turn_call.h"

namespace fermata {

// What stands between a turn's stream, on the writer's thread, and the inbox. Keeps itself until the
// stream's last call, so that the stream may outlive the inbox.
class TurnInbox::Reader final : public TurnStream::Output,
                                public std::enable_shared_from_this<Reader> {
 public:
  Reader(size_t turn, std::function<void()> notify) : turn_(turn), notify_(std::move(notify)) {}

  absl::Status Start(const Front& front, const v1::GenerateRequest& request,
                     const TraceContext& trace) {
    self_ = shared_from_this();
    absl::StatusOr<std::shared_ptr<TurnStream>> stream = StartTurn(front, request, trace, this);
    if (!stream.ok()) {
      self_.reset();
      return stream.status();
    }
    stream_ = *std::move(stream);
    return absl::OkStatus();
  }

  void Write(v1::GenerateResponse message) override { Keep(std::move(message), false); }
  void WriteLast(v1::GenerateResponse message) override { Keep(std::move(message), true); }
  void Fail(const absl::Status& status) override { Keep(status, true); }

  std::optional<TurnEvent> Take() {
    const std::lock_guard lock(mutex_);
    if (!event_.has_value()) return std::nullopt;
    TurnEvent event{.turn = turn_, .what = *std::move(event_)};
    event_.reset();
    all_taken_ = ended_;
    return event;
  }
  // The event that was taken is done with.
  void Done() {
    if (!all_taken()) stream_->WriteDone(this, true);
  }
  void Leave() {
    if (!all_taken()) stream_->ReaderGone(this);
  }
  bool all_taken() const {
    const std::lock_guard lock(mutex_);
    return all_taken_;
  }

 private:
  void Keep(std::variant<v1::GenerateResponse, absl::Status> what, bool last) {
    std::shared_ptr<Reader> self;
    {
      const std::lock_guard lock(mutex_);
      event_ = std::move(what);
      ended_ = last;
      if (last) self = std::move(self_);
    }
    notify_();
  }

  const size_t turn_;
  const std::function<void()> notify_;
  std::shared_ptr<TurnStream> stream_;  // Of the inbox's thread.
  std::shared_ptr<Reader> self_;        // While the stream may call.

  mutable std::mutex mutex_;
  std::optional<std::variant<v1::GenerateResponse, absl::Status>> event_;
  bool ended_ = false;
  bool all_taken_ = false;
};

TurnInbox::TurnInbox(const Front& front, const boost::asio::any_io_executor& executor,
                     TraceContext trace)
    : front_(front), trace_(std::move(trace)), notifier_(executor) {}

TurnInbox::~TurnInbox() { Cancel(); }

absl::Status TurnInbox::Start(const v1::GenerateRequest& request) {
  const auto reader = std::make_shared<Reader>(readers_.size(), notifier_.notify());
  FERMATA_RETURN_IF_ERROR(reader->Start(front_, request, trace_));
  readers_.push_back(reader);
  return absl::OkStatus();
}

Awaitable<std::optional<TurnEvent>> TurnInbox::Next(absl::Duration patience) {
  if (Reader* taken = std::exchange(taken_, nullptr); taken != nullptr) taken->Done();
  while (!done()) {
    for (size_t i = 0; i < readers_.size(); ++i) {
      const std::shared_ptr<Reader>& reader = readers_[next_++ % readers_.size()];
      std::optional<TurnEvent> event = reader->Take();
      if (!event.has_value()) continue;
      taken_ = reader.get();
      co_return event;
    }
    const bool notified = co_await notifier_.Wait(patience);
    if (!notified) break;
  }
  co_return std::nullopt;
}

bool TurnInbox::done() const {
  return std::ranges::all_of(readers_, [](const auto& reader) { return reader->all_taken(); });
}

void TurnInbox::Cancel() {
  for (const auto& reader : readers_) reader->Leave();
}

}  // namespace fermata
