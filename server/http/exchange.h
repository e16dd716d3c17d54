#ifndef FERMATA_SERVER_HTTP_EXCHANGE_H_
#define FERMATA_SERVER_HTTP_EXCHANGE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "boost/asio/any_io_executor.hpp"
#include "boost/asio/awaitable.hpp"
#include "server/http/message.h"

namespace fermata {

template <typename T>
using Awaitable = boost::asio::awaitable<T>;

// One request, and the way to its answer: whole, or as a stream. Used by one coroutine on the HTTP
// server's thread, which it must not block.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual boost::asio::any_io_executor executor() const = 0;

  // The next part of the body, for routes that read it in parts; empty at its end. INVALID_ARGUMENT
  // for one that is malformed, DEADLINE_EXCEEDED for one that does not come, CANCELLED when the client
  // is gone.
  virtual Awaitable<absl::StatusOr<std::string>> ReadBody() = 0;

  // The whole answer. Once, and instead of a stream.
  virtual Awaitable<void> Reply(HttpResponse response) = 0;

  // Begins a stream: `head` without its body. Then the parts of the body as they come, and its end.
  // False: the client is gone, or has not taken what was sent within the time that it has; nothing
  // more can be sent. A stream that is not ended tells the client so, by closing the connection.
  virtual Awaitable<bool> BeginStream(HttpResponse head) = 0;
  virtual Awaitable<bool> Write(std::string part) = 0;
  virtual Awaitable<bool> EndStream() = 0;

  // Has `gone` called, on the server's thread, if the client ends the connection (or its own side of
  // it) before the handler has returned. Call once.
  virtual void OnGone(std::function<void()> gone) = 0;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_EXCHANGE_H_
