#include "server/http_server.h"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/co_spawn.hpp"
#include "boost/asio/detached.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"

namespace fermata {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

// What to answer when a request can not be read; status 0 when the peer is just gone.
HttpResponse ReadError(const error_code& error) {
  if (error == http::error::header_limit) {
    return HttpError(431, "HEADER_TOO_LARGE", "the header is larger than the limit");
  }
  if (error == http::error::body_limit) {
    return HttpError(413, "BODY_TOO_LARGE", "the body is larger than the limit");
  }
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return HttpError(400, "BAD_REQUEST", "this is not an HTTP request");
  }
  return {.status = 0, .headers = {}};
}

Response ToBeast(HttpResponse from, unsigned version, bool keep_alive) {
  Response response(static_cast<http::status>(from.status), version);
  response.set(http::field::server, "fermata");
  response.set(http::field::content_type, from.content_type);
  for (const auto& [name, value] : from.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  response.body() = std::move(from.body);
  response.prepare_payload();
  return response;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, const HttpRouter& router)
      : options_(options), router_(router), acceptor_(context_) {}

  ~Impl() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // Throws boost::system::system_error.
  void Listen() {
    const size_t colon = options_.address.rfind(':');
    std::string host = options_.address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    const auto endpoints =
        tcp::resolver(context_).resolve(host, options_.address.substr(colon + 1));
    const tcp::endpoint endpoint = endpoints.begin()->endpoint();
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
    asio::co_spawn(context_, Accept(), asio::detached);
    thread_ = std::thread([this] { context_.run(); });
  }

  int port() const { return acceptor_.local_endpoint().port(); }

 private:
  asio::awaitable<void> Accept() {
    while (true) {
      error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        // Out of descriptors, for one: it can pass, so do not spin and do not give up.
        asio::steady_timer pause(context_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      } else if (connections_ < options_.max_connections) {
        ++connections_;
        asio::co_spawn(context_, Serve(beast::tcp_stream(std::move(socket))),
                       [this](const std::exception_ptr&) { --connections_; });
      }
    }
  }

  asio::awaitable<void> Serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer;
    bool keep_alive = true;
    while (keep_alive) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(options_.max_header_bytes);
      parser.body_limit(options_.max_body_bytes);
      error_code error;
      stream.expires_after(absl::ToChronoNanoseconds(options_.idle_timeout));
      co_await http::async_read(stream, buffer, parser,
                                asio::redirect_error(asio::use_awaitable, error));
      HttpResponse answer;
      if (error) {
        answer = ReadError(error);
        if (answer.status == 0) break;
      } else {
        answer = Answer(parser.get());
      }
      keep_alive = !error && parser.get().keep_alive();
      const bool head = !error && parser.get().method() == http::verb::head;
      const Response response =
          ToBeast(std::move(answer), error ? 11 : parser.get().version(), keep_alive);
      stream.expires_after(absl::ToChronoNanoseconds(options_.idle_timeout));
      if (!co_await Write(stream, response, head)) break;
    }
    co_await Close(stream);
  }

  HttpResponse Answer(Request& request) const {
    HttpRequest plain{.method = std::string(request.method_string()),
                      .target = std::string(request.target()),
                      .body = std::move(request.body())};
    return router_.Answer(plain);
  }

  asio::awaitable<bool> Write(beast::tcp_stream& stream, const Response& response, bool head) {
    http::response_serializer<http::string_body, http::fields> serializer(response);
    error_code error;
    if (head) {
      co_await http::async_write_header(stream, serializer,
                                        asio::redirect_error(asio::use_awaitable, error));
    } else {
      co_await http::async_write(stream, serializer,
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    co_return !error;
  }

  // Closing with unread bytes resets the connection, and a reply on its way may get lost: so this
  // ends our side, and takes what still comes for a moment.
  asio::awaitable<void> Close(beast::tcp_stream& stream) {
    error_code error;
    stream.socket().shutdown(tcp::socket::shutdown_send, error);
    stream.expires_after(std::chrono::seconds(1));
    char dropped[4096];
    for (int i = 0; i < 64 && !error; ++i) {
      co_await stream.async_read_some(asio::buffer(dropped),
                                      asio::redirect_error(asio::use_awaitable, error));
    }
  }

  const HttpOptions options_;
  const HttpRouter& router_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  int connections_ = 0;  // Of the one thread alone.
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              const HttpRouter& router) {
  auto impl = std::make_unique<Impl>(options, router);
  try {
    impl->Listen();
  } catch (const boost::system::system_error& error) {
    return absl::UnavailableError(absl::StrCat("--http_address: can not listen on ",
                                               options.address, ": ", error.code().message()));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port(); }

}  // namespace fermata
