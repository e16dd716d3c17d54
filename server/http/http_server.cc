#include "server/http/http_server.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "boost/asio/co_spawn.hpp"
#include "boost/asio/detached.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "server/http/connection.h"

namespace fermata {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Connections beyond the limit that are told so at a time.
constexpr int kMostTurnedAway = 64;

void SetOption(tcp::socket& socket, int level, int name, int value) {
  setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

// A peer that vanished without a word is noticed when it does not answer probes, or does not confirm
// what was sent.
void SetOptions(tcp::socket& socket, const HttpOptions& options) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(absl::ToInt64Milliseconds(options.write_timeout)));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)), acceptor_(context_) {}

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
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http");
      context_.run();
    });
  }

  int port() const { return acceptor_.local_endpoint().port(); }

  void Shutdown(absl::Duration grace) {
    asio::post(context_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      for (HttpConnection* connection : connections_) connection->Finish();
    });
    std::unique_lock lock(mutex_);
    none_left_.wait_for(lock, absl::ToChronoNanoseconds(grace), [this] { return count_ == 0; });
  }

 private:
  asio::awaitable<void> Accept() {
    while (acceptor_.is_open()) {
      error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        // Out of descriptors, for one: it can pass, so do not spin and do not give up.
        asio::steady_timer pause(context_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      } else if (std::ssize(connections_) >= options_.max_connections) {
        SetOptions(socket, options_);
        TurnAway(std::make_shared<HttpConnection>(std::move(socket), options_, *parts_.router));
      } else {
        SetOptions(socket, options_);
        Begin(std::make_shared<HttpConnection>(std::move(socket), options_, *parts_.router));
      }
    }
  }

  void Begin(const std::shared_ptr<HttpConnection>& connection) {
    connections_.insert(connection.get());
    CountConnections();
    asio::co_spawn(context_, HttpConnection::Run(connection),
                   [this, key = connection.get()](const std::exception_ptr&) {
                     connections_.erase(key);
                     CountConnections();
                   });
  }

  // Tells those beyond the limit so, unless too many are being told.
  void TurnAway(const std::shared_ptr<HttpConnection>& connection) {
    if (turned_away_ == kMostTurnedAway) return;
    ++turned_away_;
    asio::co_spawn(context_, HttpConnection::TurnAway(connection),
                   [this](const std::exception_ptr&) { --turned_away_; });
  }

  void CountConnections() {
    const std::lock_guard lock(mutex_);
    count_ = static_cast<int>(connections_.size());
    parts_.connections_changed(count_);
    if (count_ == 0) none_left_.notify_all();
  }

  const HttpOptions options_;
  const Parts parts_;
  std::mutex mutex_;
  std::condition_variable none_left_;
  int count_ = 0;

  std::set<HttpConnection*> connections_;  // Of the one thread alone, as is the next.
  int turned_away_ = 0;                    // Of those beyond the limit that are being told so.
  asio::io_context context_{1};            // Before what runs on it, and after what that uses.
  tcp::acceptor acceptor_;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              Parts parts) {
  auto impl = std::make_unique<Impl>(options, std::move(parts));
  try {
    impl->Listen();
  } catch (const boost::system::system_error& error) {
    return absl::UnavailableError(absl::StrCat("--http_address: can not listen on ",
                                               options.address, ": ", error.code().message()));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port(); }

void HttpServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace fermata
