#include "server/http_server.h"

#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/http_routes.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    router_.Add("GET", "/hello",
                [](const HttpRequest&) { return HttpResponse{.body = "hello\n", .headers = {}}; });
    router_.Add("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.body = request.body + "\n", .headers = {}};
    });
    AddOperationalRoutes(serving_, metrics_, router_);
    Start(HttpOptions{.address = "127.0.0.1:0"});
  }

  void Start(const HttpOptions& options) {
    auto server = HttpServer::Start(options, router_);
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
  KeptAnswers answers_{{}};
  Metrics metrics_{&serving_, &answers_};
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
  EXPECT_EQ(error(missing)["reason"], "NOT_FOUND");
  EXPECT_EQ(error(missing)["code"], 404);

  const std::string method =
      Exchange("DELETE /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(method, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(method, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_EQ(error(method)["reason"], "METHOD_NOT_ALLOWED");

  const std::string garbage = Exchange("hello\r\n\r\n");
  EXPECT_THAT(garbage, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(error(garbage)["reason"], "BAD_REQUEST");
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
  Start(HttpOptions{.address = "127.0.0.1:0", .idle_timeout = absl::Milliseconds(20)});
  Socket silent(server_->port());
  EXPECT_EQ(silent.ReadAll(), "");
  Socket halfway(server_->port());
  halfway.Send("GET /hello HT");
  EXPECT_THAT(halfway.ReadAll(), Not(StartsWith("HTTP/1.1 200")));
}

TEST_F(HttpServerTest, ClosesConnectionsBeyondTheLimit) {
  server_.reset();
  Start(HttpOptions{.address = "127.0.0.1:0", .max_connections = 1});
  const std::string get = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  Socket first(server_->port());
  first.Send(get);
  first.ReadUntil("hello\n");
  Socket second(server_->port());
  second.Send(get);
  EXPECT_EQ(second.ReadAll(), "");
  first.Send(get);
  EXPECT_THAT(first.ReadUntil("hello\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, APortInUseIsAClearError) {
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  const auto second = HttpServer::Start({.address = address}, router_);
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

}  // namespace
}  // namespace fermata
