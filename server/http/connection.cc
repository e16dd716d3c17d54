#include "server/http/connection.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/co_spawn.hpp"
#include "boost/asio/detached.hpp"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/http/buffer_body.hpp"
#include "boost/beast/http/chunk_encode.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/serializer.hpp"
#include "boost/beast/http/string_body.hpp"
#include "boost/beast/http/write.hpp"
#include "engine/base/error.h"
#include "server/http/http_error.h"
#include "server/http/wire.h"
#include "server/observe/logging.h"

namespace fermata {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Of a body that is read in parts.
constexpr size_t kPartBytes = 64 << 10;
constexpr size_t kFirstReadBytes = 512;
constexpr unsigned kHttp11 = 11;
constexpr absl::Duration kRetryConnection = absl::Seconds(1);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

auto Into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace

// An exchange of a connection that waits for its end.
class HttpConnection::Exchange final : public HttpExchange {
 public:
  Exchange(std::shared_ptr<HttpConnection> connection, unsigned version, bool keep_alive)
      : connection_(std::move(connection)), version_(version), keep_alive_(keep_alive) {}
  ~Exchange() override { *watching_ = false; }

  HttpRequest& mutable_request() { return request_; }
  void ReadBodyWith(std::unique_ptr<http::request_parser<http::buffer_body>> parser) {
    parser_ = std::move(parser);
  }
  void CloseAfterwards() { keep_alive_ = false; }
  bool answered() const { return answered_; }
  // After the handler: whether another request may follow.
  bool GoesOn() {
    if (std::exchange(*watching_, false)) {
      error_code ignored;
      connection_->stream_.socket().cancel(ignored);  // The watch: nothing else is under way.
    }
    const bool body_read = parser_ == nullptr || parser_->is_done();
    return whole_ && keep_alive_ && body_read && !connection_->finishing_;
  }

  const HttpRequest& request() const override { return request_; }
  asio::any_io_executor executor() const override { return connection_->stream_.get_executor(); }

  Awaitable<absl::StatusOr<std::string>> ReadBody() override;
  Awaitable<void> Reply(HttpResponse response) override;
  Awaitable<bool> BeginStream(HttpResponse head) override;
  Awaitable<bool> Write(std::string part) override;
  Awaitable<bool> EndStream() override;
  void OnGone(std::function<void()> gone) override;

 private:
  using Watching = std::shared_ptr<bool>;
  static Awaitable<void> Watch(std::shared_ptr<HttpConnection> connection, Watching watching,
                               std::function<void()> gone);

  bool is_head() const { return request_.method == "HEAD"; }
  bool keeps_alive() const { return keep_alive_ && !connection_->finishing_; }
  beast::tcp_stream& StreamToWrite() {
    connection_->stream_.expires_after(
        absl::ToChronoNanoseconds(connection_->options_.write_timeout));
    return connection_->stream_;
  }

  const std::shared_ptr<HttpConnection> connection_;
  const unsigned version_;
  bool keep_alive_;
  HttpRequest request_;
  std::unique_ptr<http::request_parser<http::buffer_body>> parser_;  // Of a body in parts.
  bool answered_ = false;                                            // Something was sent.
  bool whole_ = false;                                               // All of it was.
  const Watching watching_ = std::make_shared<bool>(false);
};

Awaitable<absl::StatusOr<std::string>> HttpConnection::Exchange::ReadBody() {
  if (parser_ == nullptr || parser_->is_done()) co_return std::string();
  std::string part(kPartBytes, '\0');
  parser_->get().body().data = part.data();
  parser_->get().body().size = part.size();
  parser_->get().body().more = true;
  error_code error;
  connection_->stream_.expires_after(absl::ToChronoNanoseconds(connection_->options_.read_timeout));
  co_await http::async_read(connection_->stream_, connection_->buffer_, *parser_, Into(error));
  if (error == http::error::need_buffer) error = {};
  if (!error) {
    part.resize(part.size() - parser_->get().body().size);
    co_return part;
  }
  keep_alive_ = false;
  if (error == beast::error::timeout) {
    co_return absl::DeadlineExceededError("the body did not come within the time limit");
  }
  if (ReadError(error).has_value()) {
    co_return absl::InvalidArgumentError(absl::StrCat("the body is malformed: ", error.message()));
  }
  co_return absl::CancelledError("the client is gone");
}

Awaitable<void> HttpConnection::Exchange::Reply(HttpResponse response) {
  answered_ = true;
  http::response<http::string_body> message(
      ToHeader(response, request_, connection_->options_, version_, keeps_alive()).base(),
      std::move(response.body));
  message.prepare_payload();
  http::response_serializer<http::string_body> serializer(message);
  error_code error;
  if (is_head()) {
    co_await http::async_write_header(StreamToWrite(), serializer, Into(error));
  } else {
    co_await http::async_write(StreamToWrite(), serializer, Into(error));
  }
  whole_ = !error;
}

Awaitable<bool> HttpConnection::Exchange::BeginStream(HttpResponse head) {
  answered_ = true;
  if (version_ < 11) keep_alive_ = false;  // Its end is that of the connection.
  http::response<http::empty_body> header =
      ToHeader(head, request_, connection_->options_, version_, keeps_alive());
  if (version_ >= 11) header.chunked(true);
  http::response_serializer<http::empty_body> serializer(header);
  error_code error;
  co_await http::async_write_header(StreamToWrite(), serializer, Into(error));
  co_return !error;
}

Awaitable<bool> HttpConnection::Exchange::Write(std::string part) {
  if (part.empty() || is_head()) co_return true;  // An empty chunk would be the last.
  error_code error;
  if (version_ >= 11) {
    const auto chunk = http::make_chunk(asio::buffer(part));
    co_await asio::async_write(StreamToWrite(), chunk, Into(error));
  } else {
    co_await asio::async_write(StreamToWrite(), asio::buffer(part), Into(error));
  }
  co_return !error;
}

Awaitable<bool> HttpConnection::Exchange::EndStream() {
  error_code error;
  if (version_ >= 11 && !is_head()) {
    co_await asio::async_write(StreamToWrite(), http::make_chunk_last(), Into(error));
  }
  whole_ = !error;
  co_return whole_;
}

void HttpConnection::Exchange::OnGone(std::function<void()> gone) {
  *watching_ = true;
  asio::co_spawn(executor(), Watch(connection_, watching_, std::move(gone)), asio::detached);
}

// Looks at what comes without taking it: it may be the next request. Then there is no further watch;
// that the client is gone shows when it is written to.
Awaitable<void> HttpConnection::Exchange::Watch(std::shared_ptr<HttpConnection> connection,
                                                Watching watching, std::function<void()> gone) {
  tcp::socket& socket = connection->stream_.socket();
  error_code error;
  co_await socket.async_wait(tcp::socket::wait_read, Into(error));
  if (!*watching) co_return;
  char byte;
  const auto peeked = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (peeked > 0 || (peeked < 0 && (errno == EAGAIN || errno == EINTR))) {
    *watching = false;
  } else {
    gone();
  }
}

HttpConnection::HttpConnection(tcp::socket socket, const HttpOptions& options,
                               const HttpRouter& router)
    : options_(options),
      router_(router),
      stream_(std::move(socket)),
      buffer_(options.max_header_bytes + kPartBytes) {}

Awaitable<void> HttpConnection::Run(std::shared_ptr<HttpConnection> self) {
  // GCC 12 awaits what is behind an && even where what is before it is false.
  bool goes_on = true;
  while (goes_on) {
    goes_on = co_await self->WaitForRequest();
    if (goes_on) goes_on = co_await AnswerOne(self);
  }
  co_await self->Close();
}

Awaitable<void> HttpConnection::TurnAway(std::shared_ptr<HttpConnection> self) {
  const absl::Status status = MakeError(
      absl::StatusCode::kUnavailable, "the server has as many connections as it may",
      {.reason = "TOO_MANY_CONNECTIONS", .metadata = {}, .retry_after = kRetryConnection});
  HttpResponse answer = ErrorResponse(status);
  co_await Refuse(self, std::move(answer));
  co_await self->Close();
}

void HttpConnection::Finish() {
  finishing_ = true;
  if (idle_) stream_.close();
}

Awaitable<bool> HttpConnection::WaitForRequest() {
  if (finishing_) co_return false;
  if (buffer_.size() > 0) co_return true;
  idle_ = true;
  buffer_.shrink_to_fit();  // Connections that rest are many, and should be small.
  stream_.expires_after(absl::ToChronoNanoseconds(options_.idle_timeout));
  error_code error;
  const size_t read =
      co_await stream_.async_read_some(buffer_.prepare(kFirstReadBytes), Into(error));
  buffer_.commit(read);
  idle_ = false;
  co_return !error;
}

Awaitable<bool> HttpConnection::AnswerOne(std::shared_ptr<HttpConnection> self) {
  HttpHeaderParser header;
  header.header_limit(self->options_.max_header_bytes);
  header.body_limit(boost::none);  // Who reads the body limits it.
  error_code error;
  self->stream_.expires_after(absl::ToChronoNanoseconds(self->options_.read_timeout));
  co_await http::async_read_header(self->stream_, self->buffer_, header, Into(error));
  if (error) {
    std::optional<HttpResponse> answer = ReadError(error);
    if (answer.has_value()) co_await Refuse(self, *std::move(answer));
    co_return false;
  }

  Exchange exchange(self, header.get().version(), header.get().keep_alive());
  std::optional<HttpResponse> answer =
      ToRequest(header, self->options_, &exchange.mutable_request());
  if (answer.has_value()) exchange.CloseAfterwards();  // What comes behind it may be its body.
  if (!answer.has_value()) answer = AnswerPreflight(exchange.request(), self->options_);
  HttpRouter::Found found;
  if (!answer.has_value()) {
    found = self->router_.Find(exchange.mutable_request());
    if (found.route == nullptr) answer = std::move(found.answer);
  }
  if (answer.has_value()) {
    // Its body is not read, or it is not known where that ends.
    if (!header.is_done() || exchange.request().Header("Transfer-Encoding").has_value()) {
      exchange.CloseAfterwards();
    }
  } else {
    answer = co_await self->ReadBody(header, *found.route, exchange);
  }
  if (answer.has_value()) {
    co_await exchange.Reply(*std::move(answer));
  } else {
    co_await Handle(*found.route, exchange);
  }
  co_return exchange.GoesOn();
}

Awaitable<std::optional<HttpResponse>> HttpConnection::ReadBody(HttpHeaderParser& header,
                                                                const HttpRoute& route,
                                                                Exchange& exchange) {
  error_code error;
  const bool in_parts = route.body == HttpRoute::Body::kInParts;
  if (!in_parts && header.content_length().value_or(0) > options_.max_body_bytes) {
    exchange.CloseAfterwards();
    co_return ReadError(http::error::body_limit);
  }
  const std::string_view expected = exchange.request().Header("Expect").value_or("");
  if (!header.is_done() && buffer_.size() == 0 &&
      absl::EqualsIgnoreCase({expected.data(), expected.size()}, "100-continue")) {
    co_await asio::async_write(stream_, asio::buffer(kContinue), Into(error));
  }
  if (in_parts) {
    auto parser = std::make_unique<http::request_parser<http::buffer_body>>(std::move(header));
    parser->body_limit(boost::none);
    exchange.ReadBodyWith(std::move(parser));
    co_return std::nullopt;
  }
  http::request_parser<http::string_body> parser(std::move(header));
  parser.body_limit(options_.max_body_bytes);
  stream_.expires_after(absl::ToChronoNanoseconds(options_.read_timeout));
  if (!parser.is_done()) co_await http::async_read(stream_, buffer_, parser, Into(error));
  if (error) {
    exchange.CloseAfterwards();
    // The client may be gone, and be told all the same.
    co_return ReadError(error).value_or(HttpError(400, "BAD_REQUEST", error.message()));
  }
  exchange.mutable_request().body = std::move(parser.get().body());
  co_return std::nullopt;
}

Awaitable<void> HttpConnection::Handle(const HttpRoute& route, Exchange& exchange) {
  std::string failure;
  try {
    co_await route.handler(exchange);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (failure.empty() && exchange.answered()) co_return;
  LogEvent(LogLevel::kError, "http_handler_failed",
           {{"method", route.method}, {"path", route.path}, {"message", failure}});
  if (!exchange.answered()) {
    co_await exchange.Reply(HttpError(500, "INTERNAL", "the server has failed at this request"));
  }
}

Awaitable<void> HttpConnection::Refuse(std::shared_ptr<HttpConnection> self, HttpResponse answer) {
  Exchange unread(self, kHttp11, /*keep_alive=*/false);
  co_await unread.Reply(std::move(answer));
}

// Closing with unread bytes resets the connection, and a reply on its way may get lost: so this ends
// our side, and takes what still comes for a moment.
Awaitable<void> HttpConnection::Close() {
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  stream_.expires_after(std::chrono::seconds(1));
  char dropped[4096];
  for (int i = 0; i < 64 && !error; ++i) {
    co_await stream_.async_read_some(asio::buffer(dropped), Into(error));
  }
  stream_.close();
}

}  // namespace fermata
