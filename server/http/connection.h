#ifndef FERMATA_SERVER_HTTP_CONNECTION_H_
#define FERMATA_SERVER_HTTP_CONNECTION_H_

#include <memory>
#include <optional>

#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "server/config/flags.h"
#include "server/http/exchange.h"
#include "server/http/router.h"
#include "server/http/wire.h"

namespace fermata {

// One client's connection: HTTP/1.1 with keep-alive and pipelining, and HTTP/1.0. A request that is not
// HTTP or beyond a limit is answered with 400, 413 or 431, and the connection closed; one that does not
// come in time is not answered. Of the server's thread.
class HttpConnection {
 public:
  // Both must outlive the connection.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpOptions& options,
                 const HttpRouter& router);

  // Answers requests until the connection ends.
  static Awaitable<void> Run(std::shared_ptr<HttpConnection> self);

  // Instead: says that there are too many connections, and ends this one.
  static Awaitable<void> TurnAway(std::shared_ptr<HttpConnection> self);

  // No further request is answered: closes the connection at once, or after the answer on its way.
  void Finish();

 private:
  class Exchange;

  // Waits for a request's first bytes. False: the connection ends.
  Awaitable<bool> WaitForRequest();
  // Reads one request and answers it. Whether another may follow.
  static Awaitable<bool> AnswerOne(std::shared_ptr<HttpConnection> self);
  // Reads the body behind `header`, which is spent then, as `route` wants it. The answer instead where that fails.
  Awaitable<std::optional<HttpResponse>> ReadBody(HttpHeaderParser& header, const HttpRoute& route,
                                                  Exchange& exchange);
  static Awaitable<void> Handle(const HttpRoute& route, Exchange& exchange);
  // Answers what was not, or could not be, read.
  static Awaitable<void> Refuse(std::shared_ptr<HttpConnection> self, HttpResponse answer);
  Awaitable<void> Close();

  const HttpOptions& options_;
  const HttpRouter& router_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  bool idle_ = true;  // Between requests.
  bool finishing_ = false;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_CONNECTION_H_
