#include "tests/e2e/http_client.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

namespace fermata::e2e {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = http::response_parser<http::string_body>;

constexpr std::chrono::seconds kPatience(60);

std::string SmallLetters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

HttpReply ToReply(const http::response<http::string_body>& message) {
  HttpReply reply{.status = static_cast<int>(message.result_int()), .body = message.body()};
  for (const auto& field : message) {
    reply.headers[SmallLetters(std::string(field.name_string()))] = std::string(field.value());
  }
  return reply;
}

}  // namespace

std::string HttpReply::Header(const std::string& name_in_small_letters) const {
  const auto found = headers.find(name_in_small_letters);
  return found == headers.end() ? "" : found->second;
}

std::string Spell(const HttpCall& call) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(
        call.headers, [&](const auto& header) { return SmallLetters(header.first) == name; });
  };
  std::string text = call.method + " " + call.target + " HTTP/1.1\r\n";
  if (!has("host")) text += "Host: localhost\r\n";
  for (const auto& [name, value] : call.headers) text += name + ": " + value + "\r\n";
  if (!call.body.empty() && !has("content-type")) text += "Content-Type: application/json\r\n";
  const bool can_have_body = call.method != "GET" && call.method != "HEAD";
  if ((can_have_body || !call.body.empty()) && !has("content-length") &&
      !has("transfer-encoding")) {
    text += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  return text + "\r\n" + call.body;
}

struct HttpConnection::Impl {
  // Runs one asynchronous operation to its end: those that wait have no time limit of their own.
  template <typename Start>
  error_code Run(Start start) {
    std::optional<error_code> result;
    context.restart();
    start([&](error_code error, auto&&...) { result = error; });
    context.run_for(kPatience);
    if (result.has_value()) return *result;
    socket.close();
    context.run();
    throw std::runtime_error("the server took more than a minute");
  }

  // Begins to read the next answer, past those that only announce one.
  error_code ReadHead(bool to_head) {
    error_code error;
    do {
      parser.emplace();
      parser->skip(to_head);
      parser->body_limit(boost::none);
      parser->header_limit(1 << 20);
      error = Run([&](auto done) { http::async_read_header(socket, buffer, *parser, done); });
    } while (!error && parser->get().result_int() / 100 == 1);
    return error;
  }

  asio::io_context context{1};
  tcp::socket socket{context};
  boost::beast::flat_buffer buffer;
  std::optional<Parser> parser;  // Of the answer that is being read.
};

HttpConnection::HttpConnection(int port) : impl_(std::make_unique<Impl>()) {
  const tcp::endpoint server(asio::ip::address_v4::loopback(), static_cast<uint16_t>(port));
  const error_code error =
      impl_->Run([&](auto done) { impl_->socket.async_connect(server, done); });
  if (error) throw std::runtime_error("can not connect: " + error.message());
}

HttpConnection::~HttpConnection() = default;
HttpConnection::HttpConnection(HttpConnection&&) noexcept = default;

HttpReply HttpConnection::Call(const HttpCall& call) {
  Write(Spell(call));  // A server may answer without reading all of it.
  return Read(call.method == "HEAD");
}

bool HttpConnection::Write(std::string_view bytes) {
  return !impl_->Run([&](auto done) {
    asio::async_write(impl_->socket, asio::buffer(bytes.data(), bytes.size()), done);
  });
}

HttpReply HttpConnection::Read(bool to_head) {
  if (impl_->ReadHead(to_head)) return {};
  const error_code error = impl_->Run(
      [&](auto done) { http::async_read(impl_->socket, impl_->buffer, *impl_->parser, done); });
  return error ? HttpReply{} : ToReply(impl_->parser->get());
}

HttpReply HttpConnection::ReadHead() {
  if (impl_->ReadHead(false)) return {};
  return ToReply(impl_->parser->get());
}

std::string HttpConnection::ReadPart() {
  std::string& body = impl_->parser->get().body();
  error_code error;
  while (body.empty() && !error && !impl_->parser->is_done()) {
    error = impl_->Run([&](auto done) {
      http::async_read_some(impl_->socket, impl_->buffer, *impl_->parser, done);
    });
  }
  return std::exchange(body, {});
}

bool HttpConnection::complete() const { return impl_->parser->is_done(); }

std::string HttpConnection::ReadToEnd() {
  std::string text(static_cast<const char*>(impl_->buffer.data().data()), impl_->buffer.size());
  impl_->buffer.clear();
  impl_->Run([&](auto done) { asio::async_read(impl_->socket, asio::dynamic_buffer(text), done); });
  return text;
}

void HttpConnection::EndWriting() {
  error_code error;
  impl_->socket.shutdown(tcp::socket::shutdown_send, error);
}

void HttpConnection::Reset() {
  error_code error;
  impl_->socket.set_option(asio::socket_base::linger(true, 0), error);
  impl_->socket.close(error);
}

HttpReply CallHttp(int port, const HttpCall& call) { return HttpConnection(port).Call(call); }

}  // namespace fermata::e2e
