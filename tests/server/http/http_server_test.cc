#include "server/http/http_server.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/http/http_error.h"
#include "server/http/notifier.h"
#include "server/http/operational_routes.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection that sends what it is told, HTTP or not.
class Socket {
 public:
  explicit Socket(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Socket() { close(fd_); }

  void Send(const std::string& bytes) { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void EndSending() { shutdown(fd_, SHUT_WR); }

  // Until `count` bytes of `end` have come, or the other side closes.
  std::string ReadUntil(const std::string& end) {
    std::string text;
    char byte;
    while (!text.ends_with(end) && recv(fd_, &byte, 1, 0) == 1) text += byte;
    return text;
  }
  std::string ReadAll() { return ReadUntil("\xFF never \xFF"); }

 private:
  int fd_;
};

// Waits until another thread says so.
class Flag {
 public:
  std::function<void()> notify() {
    return [this] {
      const std::lock_guard lock(mutex_);
      set_ = true;
      changed_.notify_all();
    };
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

Awaitable<void> CountBody(HttpExchange& exchange) {
  size_t bytes = 0;
  while (true) {
    const absl::StatusOr<std::string> part = co_await exchange.ReadBody();
    if (!part.ok()) co_return co_await exchange.Reply(ErrorResponse(part.status()));
    if (part->empty()) break;
    bytes += part->size();
  }
  HttpResponse response{.body = std::to_string(bytes), .headers = {}};
  co_await exchange.Reply(std::move(response));
}

// "1,2,3," as a stream.
Awaitable<void> Count(HttpExchange& exchange) {
  HttpResponse head{.headers = {{"X-Kind", "count"}}};
  co_await exchange.BeginStream(std::move(head));
  const int to = std::stoi(exchange.request().parameters.at("to"));
  for (int i = 1; i <= to; ++i) {
    std::string part = std::to_string(i) + ",";
    co_await exchange.Write(std::move(part));
  }
  co_await exchange.EndStream();
}

// Begins a stream, and says nothing more until the client is gone.
Awaitable<void> WaitForTheEnd(HttpExchange& exchange, std::function<void()> gone) {
  HttpResponse head{.headers = {}};
  co_await exchange.BeginStream(std::move(head));
  Notifier notifier(exchange.executor());
  exchange.OnGone([notify = notifier.notify(), gone] {
    notify();
    gone();
  });
  co_await notifier.Wait(absl::Minutes(1));
}

Awaitable<void> Throw(HttpExchange&) {
  throw std::runtime_error("as the test wants");
  co_return;
}

Awaitable<void> SayNothing(HttpExchange&) { co_return; }

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    router_.Add("GET", "/hello",
                [](const HttpRequest&) { return HttpResponse{.body = "hello\n", .headers = {}}; });
    router_.Add("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.body = request.body + "\n", .headers = {}};
    });
    router_.Add({.method = "POST",
                 .path = "/parts",
                 .handler = CountBody,
                 .body = HttpRoute::Body::kInParts});
    router_.Add({.method = "GET", .path = "/count/{to}", .handler = Count});
    router_.Add({.method = "GET", .path = "/wait", .handler = [this](HttpExchange& exchange) {
                   return WaitForTheEnd(exchange, gone_.notify());
                 }});
    router_.Add({.method = "GET", .path = "/throws", .handler = Throw});
    router_.Add({.method = "GET", .path = "/silent", .handler = SayNothing});
    AddOperationalRoutes(serving_, metrics_, router_);
    Start(HttpOptions{.address = "127.0.0.1:0"});
  }

  void Start(const HttpOptions& options) {
    auto server = HttpServer::Start(options, {.router = &router_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // What one connection gets for `bytes`.
  std::string Exchange(const std::string& bytes) {
    Socket socket(server_->port());
    socket.Send(bytes);
    return socket.ReadAll();
  }
  std::string Get(const std::string& path) {
    return Exchange("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
  static std::string Body(const std::string& response) {
    const size_t end = response.find("\r\n\r\n");
    return end == std::string::npos ? "" : response.substr(end + 4);
  }

  ServingState serving_;
  Metrics metrics_{[] { return std::nullopt; }};
  Flag gone_;
  HttpRouter router_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndClosesWhenAsked) {
  const std::string response = Get("/hello?a=b");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_EQ(Body(response), "hello\n");
}

TEST_F(HttpServerTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  Socket socket(server_->port());
  const std::string get = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  socket.Send(get);
  EXPECT_THAT(socket.ReadUntil("hello\n"), StartsWith("HTTP/1.1 200"));
  socket.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + get);
  EXPECT_THAT(socket.ReadUntil("alive\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(socket.ReadUntil("hello\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AnswersWhatCameBeforeGarbage) {
  const std::string response =
      Exchange("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n\x01\x02 what is this\r\n\r\n");
  const size_t second = response.find("HTTP/1.1", 8);
  ASSERT_NE(second, std::string::npos) << response;
  EXPECT_EQ(Body(response.substr(0, second)), "hello\n");
  EXPECT_THAT(response.substr(second), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(response.substr(second), HasSubstr("Connection: close\r\n"));
}

TEST_F(HttpServerTest, ErrorsAreJson) {
  const auto error = [](const std::string& response) {
    EXPECT_THAT(response, HasSubstr("Content-Type: application/json\r\n"));
    return nlohmann::json::parse(Body(response), nullptr, false)["error"];
  };
  const std::string missing = Get("/nothing");
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(error(missing)["code"], "PATH_NOT_FOUND");
  EXPECT_EQ(error(missing)["type"], "not_found_error");

  const std::string method =
      Exchange("DELETE /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(method, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(method, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_EQ(error(method)["code"], "METHOD_NOT_ALLOWED");

  const std::string garbage = Exchange("hello\r\n\r\n");
  EXPECT_THAT(garbage, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(error(garbage)["code"], "BAD_REQUEST");
}

TEST_F(HttpServerTest, HeadHasTheLengthAndNoBody) {
  const std::string response =
      Exchange("HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(response, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_THAT(response, testing::EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, PostCarriesABody) {
  const std::string response = Exchange(
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(Body(response), "abc\n");
}

TEST_F(HttpServerTest, LimitsAreAnsweredAndEndTheConnection) {
  server_.reset();
  Start(HttpOptions{.address = "127.0.0.1:0", .max_header_bytes = 1000, .max_body_bytes = 2000});
  const std::string header =
      Exchange("GET /hello HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(1500, 'a') + "\r\n\r\n");
  EXPECT_THAT(header, StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(header, HasSubstr("Connection: close\r\n"));
  const std::string body = Exchange(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2500\r\n\r\n" + std::string(2500, 'a'));
  EXPECT_THAT(body, StartsWith("HTTP/1.1 413"));
  // A header without an end is not waited for beyond the limit.
  EXPECT_THAT(Exchange(std::string(1500, 'a')), StartsWith("HTTP/1.1 4"));
}

TEST_F(HttpServerTest, ClosesConnectionsThatSendNothing) {
  server_.reset();
  Start(HttpOptions{.address = "127.0.0.1:0",
                    .idle_timeout = absl::Milliseconds(20),
                    .read_timeout = absl::Milliseconds(20)});
  Socket silent(server_->port());
  EXPECT_EQ(silent.ReadAll(), "");
  Socket halfway(server_->port());
  halfway.Send("GET /hello HT");
  EXPECT_EQ(halfway.ReadAll(), "");
  Socket without_body(server_->port());
  without_body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
  EXPECT_EQ(without_body.ReadAll(), "");
}

TEST_F(HttpServerTest, TurnsAwayConnectionsBeyondTheLimit) {
  server_.reset();
  Start(HttpOptions{.address = "127.0.0.1:0", .max_connections = 1});
  const std::string get = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  Socket first(server_->port());
  first.Send(get);
  first.ReadUntil("hello\n");
  Socket second(server_->port());
  EXPECT_THAT(second.ReadAll(), StartsWith("HTTP/1.1 503"));
  first.Send(get);
  EXPECT_THAT(first.ReadUntil("hello\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, APortInUseIsAClearError) {
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  const auto second = HttpServer::Start({.address = address}, {.router = &router_});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("--http_address: can not listen on " + address));
}

TEST_F(HttpServerTest, ManyClientsAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      for (int j = 0; j < 50; ++j) EXPECT_EQ(Body(Get("/hello")), "hello\n");
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(HttpServerTest, OperationalRoutesFollowTheServersLife) {
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("\"LOADING\""));
  serving_.ReportLoading({.bytes_done = 433, .bytes = 1000});
  EXPECT_THAT(Get("/readyz"), HasSubstr("(weights, 43 %)"));
  EXPECT_THAT(serving_.runtime().status().message(), HasSubstr("(weights, 43 %)"));
  EXPECT_THAT(Get("/metrics"),
              HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  serving_.StartServing(nullptr);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
  serving_.StartDraining();
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("\"DRAINING\""));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, BodiesComeInPartsWhereTheRouteWantsThem) {
  const std::string large(300'000, 'a');
  EXPECT_EQ(Body(Exchange("POST /parts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                          "Content-Length: 300000\r\n\r\n" +
                          large)),
            "300000");
  EXPECT_EQ(Body(Exchange("POST /parts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n2\r\nfg\r\n0\r\n\r\n")),
            "7");
  EXPECT_THAT(Exchange("POST /parts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "zz\r\nabc"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, StreamsAreChunkedAndConnectionsLiveOn) {
  Socket socket(server_->port());
  for (int i = 0; i < 2; ++i) {
    socket.Send("GET /count/3 HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string response = socket.ReadUntil("0\r\n\r\n");
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(response, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(response, HasSubstr("X-Kind: count\r\n"));
    EXPECT_EQ(Body(response), "2\r\n1,\r\n2\r\n2,\r\n2\r\n3,\r\n0\r\n\r\n");
  }
  const std::string old = Exchange("GET /count/3 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(Body(old), "1,2,3,");
}

TEST_F(HttpServerTest, ARequestBehindAStreamIsAnsweredAfterIt) {
  Socket socket(server_->port());
  socket.Send("GET /count/2 HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(socket.ReadUntil("0\r\n\r\n"), HasSubstr("2,"));
  EXPECT_THAT(socket.ReadUntil("hello\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, TellsAHandlerThatItsClientIsGone) {
  {
    Socket socket(server_->port());
    socket.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    socket.ReadUntil("\r\n\r\n");
  }
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, AHandlerThatFailsIsAnErrorOfTheServer) {
  EXPECT_THAT(Get("/throws"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(Get("/silent"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(Get("/hello"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ShuttingDownLetsAnAnswerEndAndClosesIdleConnections) {
  Socket idle(server_->port());
  idle.Send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.ReadUntil("hello\n");
  Socket waiting(server_->port());
  waiting.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  waiting.ReadUntil("\r\n\r\n");
  std::thread shutdown([this] { server_->Shutdown(absl::Minutes(1)); });
  EXPECT_EQ(idle.ReadAll(), "");
  waiting.EndSending();
  shutdown.join();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, PagesOfOtherOriginsMayReadAndNotChange) {
  const auto post = [this](const std::string& origin) {
    return Exchange("POST /echo HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\nOrigin: " + origin +
                    "\r\nContent-Length: 1\r\n\r\na");
  };
  const std::string preflight =
      "OPTIONS /echo HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\nOrigin: https://a.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-session-id\r\n\r\n";
  EXPECT_THAT(post("http://x:1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post("https://a.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Exchange(preflight), StartsWith("HTTP/1.1 403"));

  server_.reset();
  Start(HttpOptions{.address = "127.0.0.1:0", .allowed_origins = {"https://a.example"}});
  EXPECT_THAT(post("https://a.example"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post("https://a.example"),
              HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"));
  EXPECT_THAT(post("https://b.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Exchange(preflight), StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(Exchange(preflight), HasSubstr("Access-Control-Allow-Headers: x-session-id\r\n"));
}

TEST_F(HttpServerTest, RefusesWhatCouldBeReadInTwoWays) {
  const std::string both =
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
      "0\r\n\r\n";
  EXPECT_THAT(Exchange(both), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(
      Exchange("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n"
               "\r\nab"),
      StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Exchange("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nab"),
              StartsWith("HTTP/1.1 501"));
  EXPECT_THAT(Exchange("GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, ClientsThatAskAreToldToGoOn) {
  Socket socket(server_->port());
  socket.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(socket.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.Send("abc");
  EXPECT_THAT(socket.ReadUntil("abc\n"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace fermata
