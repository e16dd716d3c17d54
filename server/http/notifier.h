#ifndef FERMATA_SERVER_HTTP_NOTIFIER_H_
#define FERMATA_SERVER_HTTP_NOTIFIER_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "boost/asio/any_io_executor.hpp"
#include "boost/asio/steady_timer.hpp"
#include "server/http/exchange.h"

namespace fermata {

// Wakes one coroutine from other threads. Lives on the coroutine's thread; what it gave to others may
// outlive it, and does nothing then.
class Notifier {
 public:
  explicit Notifier(const boost::asio::any_io_executor& executor);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Has the wait that runs, or the next one, end. Thread-safe, and may be copied.
  std::function<void()> notify() const;

  // Until notified, at most for `limit`; whether it was.
  Awaitable<bool> Wait(absl::Duration limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  boost::asio::steady_timer timer_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_NOTIFIER_H_
