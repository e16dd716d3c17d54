#include "server/http/notifier.h"

#include <mutex>
#include <utility>

#include "boost/asio/post.hpp"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/use_awaitable.hpp"

namespace fermata {

namespace asio = boost::asio;

struct Notifier::Shared {
  std::mutex mutex;
  Notifier* notifier = nullptr;  // Null when it is gone.
  bool posted = false;           // Its wait is about to end.
  bool notified = false;         // And no wait has seen it. Of the coroutine's thread.
};

Notifier::Notifier(const asio::any_io_executor& executor)
    : shared_(std::make_shared<Shared>()), timer_(executor) {
  shared_->notifier = this;
}

Notifier::~Notifier() {
  const std::lock_guard lock(shared_->mutex);
  shared_->notifier = nullptr;
}

std::function<void()> Notifier::notify() const {
  return [shared = shared_] {
    const std::lock_guard lock(shared->mutex);
    if (shared->notifier == nullptr || std::exchange(shared->posted, true)) return;
    asio::post(shared->notifier->timer_.get_executor(), [shared] {
      const std::lock_guard lock(shared->mutex);
      shared->posted = false;
      if (shared->notifier == nullptr) return;
      shared->notified = true;
      shared->notifier->timer_.cancel();
    });
  };
}

Awaitable<bool> Notifier::Wait(absl::Duration limit) {
  if (!shared_->notified) {
    boost::system::error_code cancelled;
    timer_.expires_after(absl::ToChronoNanoseconds(limit));
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  co_return std::exchange(shared_->notified, false);
}

}  // namespace fermata
