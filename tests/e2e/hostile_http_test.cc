// HTTP clients that are slow, wrong or gone. Whatever they do, they get a clear answer or a closed
// connection, others are served meanwhile, and nothing of theirs is left behind.
//
// FERMATA_HOSTILE_ROUNDS says how many clients of each kind come before memory is looked at.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/http_client.h"
#include "tests/e2e/server_process.h"
#include "tests/settings.h"

namespace fermata::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::string_literals;

constexpr char kConnections[] = "fermata_http_connections";
constexpr int kMaxConnections = 100;
constexpr size_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kMaxBodyBytes = 4 << 20;

std::string Get(const std::string& target) { return Spell({.target = target}); }

std::string Post(const std::string& target, const std::string& body) {
  return Spell({.method = "POST", .target = target, .body = body});
}

// A completion that does not end by itself, as a stream.
std::string EndlessStream() {
  return Post("/v1/completions", R"({"prompt": "Once upon a time", "stream": true,
    "max_tokens": 1000000, "seed": 1, "ignore_eos": true, "logprobs": 5})");
}

// The text of events, of at least `count`; fewer when the stream ended before.
std::string ReadEvents(HttpConnection& connection, int count) {
  std::string text;
  for (size_t at = 0; count > 0; --count) {
    size_t end;
    while ((end = text.find("\n\n", at)) == std::string::npos) {
      const std::string part = connection.ReadPart();
      if (part.empty()) return text;
      text += part;
    }
    at = end + 2;
  }
  return text;
}

class HostileHttpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ServerProcess(
        {"--http_read_timeout=500ms", "--http_write_timeout=1s", "--http_idle_timeout=3s",
         "--http_max_connections=" + std::to_string(kMaxConnections), "--log_level=error"});
  }
  static void TearDownTestSuite() {
    EXPECT_TRUE(server_->running()) << server_->log();
    delete server_;
  }

  void TearDown() override {
    ASSERT_TRUE(server_->running()) << server_->log();
    ExpectNothingLeft();
    ExpectServes();
  }

  static ServerProcess& server() { return *server_; }
  static HttpConnection Connect() { return HttpConnection(server_->http_port()); }

  static void ExpectServes() {
    const HttpReply reply =
        CallHttp(server_->http_port(),
                 {.method = "POST",
                  .target = "/v1/completions",
                  .body = R"({"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0})"});
    EXPECT_EQ(reply.status, 200) << reply.body;
  }
  // Neither turn nor connection, but for the one that asks.
  static void ExpectNothingLeft() {
    EXPECT_TRUE(server_->MetricBecomes(kRunning, 0));
    EXPECT_TRUE(server_->MetricBecomes(kQueued, 0));
    EXPECT_TRUE(server_->MetricBecomes(kConnections, 1));
    EXPECT_EQ(server_->Metric("fermata_sessions{tier=\"memory\"}"), 0);
  }
  // An answer of an error, in JSON, after which the server closes.
  static void ExpectRefused(HttpConnection& connection, int status, const std::string& what) {
    const HttpReply reply = connection.Read();
    EXPECT_EQ(reply.status, status) << what << ": " << reply.body;
    EXPECT_EQ(reply.Header("connection"), "close") << what;
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << what << ": " << reply.body;
    EXPECT_TRUE(json["error"]["message"].is_string() && json["error"]["code"].is_string())
        << what << ": " << reply.body;
    EXPECT_EQ(connection.ReadToEnd(), "") << what;
  }

 private:
  static inline ServerProcess* server_ = nullptr;
};

TEST_F(HostileHttpTest, ClientsThatSendByteByByteAreGivenUp) {
  std::vector<std::unique_ptr<HttpConnection>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<HttpConnection>(server().http_port()));
  }
  const std::string request = Get("/healthz");
  // Longer than the time limit for a whole header.
  for (size_t i = 0; i < 12; ++i) {
    std::erase_if(slow, [&](auto& connection) { return !connection->Write(request.substr(i, 1)); });
    EXPECT_EQ(CallHttp(server().http_port(), {.target = "/healthz"}).status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
  }
  for (auto& connection : slow) {
    EXPECT_FALSE(connection->Write(request.substr(12)) && connection->Read().status == 200);
  }
}

TEST_F(HostileHttpTest, BodiesThatComeByteByByteAreGivenUp) {
  HttpConnection connection = Connect();
  const std::string request = Post("/v1/tokenize", R"({"prompt": "Once upon a time, there was"})");
  const size_t body = request.find("\r\n\r\n") + 4;
  connection.Write(request.substr(0, body));
  for (size_t i = body; i < request.size(); ++i) {
    if (!connection.Write(request.substr(i, 1))) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  EXPECT_NE(connection.Read().status, 200);
}

TEST_F(HostileHttpTest, WhatIsTooLargeIsRefusedByItsName) {
  const std::string long_value(kMaxHeaderBytes, 'a');
  std::string many_headers = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
  while (many_headers.size() < 2 * kMaxHeaderBytes) many_headers += "X-Header: value\r\n";
  const struct {
    const char* what;
    int status;
    std::string bytes;
  } kCases[] = {
      {"one long header", 431, Spell({.target = "/healthz", .headers = {{"X-Long", long_value}}})},
      {"many headers", 431, many_headers + "\r\n"},
      {"a long target", 431, Get("/" + long_value)},
      {"a header without an end", 431, "GET /" + long_value},
      {"a body announced", 413,
       "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"},
      {"a body in chunks", 413,
       "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n500000\r\n" +
           std::string(kMaxBodyBytes + 1000, 'a')},
      {"a chunk's size", 413,
       "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
       "7fffffffffffffff\r\n"},
  };
  for (const auto& [what, status, bytes] : kCases) {
    HttpConnection connection = Connect();
    connection.Write(bytes);
    ExpectRefused(connection, status, what);
  }
}

TEST_F(HostileHttpTest, WhatIsNotHttpIsRefused) {
  const std::string head = "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\n";
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  const struct {
    const char* what;
    std::string bytes;
  } kCases[] = {
      {"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"s},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"no version", "GET /healthz\r\n\r\n"},
      {"a version of three parts", "GET /healthz HTTP/1.1.1\r\nHost: x\r\n\r\n"},
      {"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"two spaces", "GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"NUL in the target", "GET /heal\0thz HTTP/1.1\r\nHost: x\r\n\r\n"s},
      {"NUL in a header", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n"s},
      {"a header without a name", "GET /healthz HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n"},
      {"a header without a colon", "GET /healthz HTTP/1.1\r\nHost: x\r\nhello\r\n\r\n"},
      {"space before the colon", head + "Content-Length : 2\r\n\r\n{}"},
      {"lines that end in LF", "GET /healthz HTTP/1.1\nHost: x\n\n"},
      // What a proxy before us and we could understand in two ways.
      {"two lengths", head + "Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}"},
      {"two lengths in one", head + "Content-Length: 2, 20\r\n\r\n{}"},
      {"a length and chunks",
       head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + Get("/healthz")},
      {"chunks and a length",
       head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + Get("/healthz")},
      {"a length below zero", head + "Content-Length: -1\r\n\r\n"},
      {"a length with a sign", head + "Content-Length: +2\r\n\r\n{}"},
      {"a length in hexadecimal", head + "Content-Length: 0x2\r\n\r\n{}"},
      {"a length beyond 64 bits", head + "Content-Length: 99999999999999999999999\r\n\r\n"},
      {"a chunk of no size", chunked + "\r\n{}\r\n0\r\n\r\n"},
      {"a chunk of a size that is none", chunked + "zz\r\n{}\r\n0\r\n\r\n"},
      {"a chunk of a size below zero", chunked + "-2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk's size beyond 64 bits", chunked + "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"},
      {"a chunk longer than its size", chunked + "2\r\n{}{}\r\n0\r\n\r\n"},
  };
  for (const auto& [what, bytes] : kCases) {
    HttpConnection connection = Connect();
    connection.Write(bytes);
    ExpectRefused(connection, 400, what);
  }
}

// Encodings of which nobody here knows where they end.
TEST_F(HostileHttpTest, BodiesThatAreEncodedOtherwiseAreRefused) {
  for (const std::string encoding : {"gzip", "chunked, gzip", "xchunked", "chunked, identity"}) {
    HttpConnection connection = Connect();
    connection.Write("POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + encoding +
                     "\r\n\r\n0\r\n\r\n" + Get("/healthz"));
    ExpectRefused(connection, 501, encoding);
  }
}

TEST_F(HostileHttpTest, TargetsAndHostsThatAreNoneAreRefused) {
  for (const std::string& request :
       {"GET /healthz HTTP/1.1\r\n\r\n"s, "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"s,
        Get("/v1/sessions/%zz"), Get("/v1/sessions/%f"), Get("/v1/sessions/%ff%fe"),
        Get("/v1/sessions/%00"), Get("/v1/sessions?page_token=%C0%80"), Get("/healthz?%")}) {
    HttpConnection connection = Connect();
    connection.Write(request);
    const HttpReply reply = connection.Read();
    EXPECT_EQ(reply.status, 400) << request << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("\"message\":"));
  }
}

// The connection goes on after each.
TEST_F(HostileHttpTest, BodiesThatAreNotJsonAreRefused) {
  const std::string deep_list(100'000, '[');
  std::string deep_object;
  for (int i = 0; i < 50'000; ++i) deep_object += R"({"a":)";
  const std::string closed = std::string(50'000, '[') + std::string(50'000, ']');
  const std::string kBodies[] = {
      "",
      " ",
      "null",
      "[]",
      "\"text\"",
      "{",
      "{}}",
      "{\"prompt\": \"a\"} {}",
      "{\"prompt\": \"a\",}",
      "{'prompt': 'a'}",
      "{\"prompt\": \"\xff\"}",
      "{\"prompt\": \"\xc0\xaf\"}",
      "{\"prompt\": \"\xed\xa0\x80\"}",
      "{\"prompt\": \"\\ud800\"}",
      "{\"prompt\": \"a\0b\"}"s,
      "{\"prompt\": \"a\"}\0"s,
      "{\"prompt\": \"a\", \"max_tokens\": 1e999}",
      "{\"prompt\": \"a\", \"max_tokens\": NaN}",
      "\xef\xbb\xbf{",
      deep_list,
      deep_object,
      "{\"prompt\": " + closed + "}",
      "{\"prompt\": \"a\", \"unknown\": " + closed + "}",
  };
  HttpConnection connection = Connect();
  for (const char* target : {"/v1/completions", "/v1/chat/completions", "/v1/tokenize",
                             "/v1/detokenize", "/v1/sessions"}) {
    for (const std::string& body : kBodies) {
      if (body.empty() && std::string_view(target) == "/v1/sessions") continue;  // All by default.
      const HttpReply reply =
          connection.Call({.method = "POST", .target = target, .body = body, .headers = {}});
      EXPECT_EQ(reply.status, 400) << target << ": " << body.substr(0, 100) << ": " << reply.body;
      EXPECT_TRUE(reply.json()["error"]["message"].is_string()) << reply.body;
    }
  }
  EXPECT_EQ(connection.Call({.target = "/healthz"}).status, 200);
}

TEST_F(HostileHttpTest, PipelinedRequestsAreAnsweredInTheirOrder) {
  std::string requests;
  constexpr int kRequests = 60;
  for (int i = 0; i < kRequests; ++i) {
    const std::string text(i + 1, 'a');
    switch (i % 4) {
      case 0:
        requests += Post("/v1/detokenize", R"({"tokens": []})");
        break;
      case 1:
        requests += Get("/nothing/" + std::to_string(i));
        break;
      case 2:
        requests +=
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "13\r\n{\"prompt\": \"a\", \"n\"\r\n8\r\n: \"one\"}\r\n0\r\n\r\n";
        break;
      default:
        requests += Get("/healthz");
    }
  }
  HttpConnection connection = Connect();
  // In pieces that end anywhere.
  for (size_t at = 0; at < requests.size(); at += 777) {
    ASSERT_TRUE(connection.Write(requests.substr(at, 777)));
  }
  for (int i = 0; i < kRequests; ++i) {
    const HttpReply reply = connection.Read();
    switch (i % 4) {
      case 0:
        EXPECT_EQ(reply.status, 200) << i << ": " << reply.body;
        EXPECT_THAT(reply.body, HasSubstr("\"\"")) << i;
        break;
      case 1:
        EXPECT_EQ(reply.status, 404) << i << ": " << reply.body;
        break;
      case 2:
        EXPECT_EQ(reply.status, 400) << i << ": " << reply.body;
        EXPECT_EQ(reply.json()["error"]["param"], "n") << i;
        break;
      default:
        EXPECT_EQ(reply.body, "alive\n") << i;
    }
  }
}

// A stream, and behind it what was sent with it.
TEST_F(HostileHttpTest, WhatFollowsAStreamIsAnsweredAfterIt) {
  HttpConnection connection = Connect();
  connection.Write(
      Post("/v1/completions", R"({"prompt": "Once", "stream": true, "max_tokens": 20})") +
      Get("/healthz"));
  EXPECT_THAT(connection.Read().body, HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(connection.Read().body, "alive\n");
}

enum class Farewell { kReset, kEnd, kClose };

void Leave(HttpConnection connection, Farewell farewell) {
  switch (farewell) {
    case Farewell::kReset:
      return connection.Reset();
    case Farewell::kEnd:
      connection.EndWriting();
      connection.ReadToEnd();
      return;
    case Farewell::kClose:
      return;
  }
}

constexpr Farewell kFarewells[] = {Farewell::kReset, Farewell::kEnd, Farewell::kClose};

TEST_F(HostileHttpTest, ClientsMayLeaveAtAnyStage) {
  const std::string request = EndlessStream();
  const size_t header = request.find("\r\n\r\n") + 4;
  for (const Farewell farewell : kFarewells) {
    for (const size_t sent : {size_t{0}, size_t{3}, header / 2, header - 2, header, header + 10,
                              request.size() - 1, request.size()}) {
      HttpConnection connection = Connect();
      connection.Write(request.substr(0, sent));
      Leave(std::move(connection), farewell);
    }
    for (const int events : {0, 1, 2, 10}) {
      HttpConnection connection = Connect();
      connection.Write(request);
      ASSERT_EQ(connection.ReadHead().status, 200);
      EXPECT_THAT(ReadEvents(connection, events), Not(HasSubstr("[DONE]")));
      Leave(std::move(connection), farewell);
    }
    ExpectNothingLeft();
  }
}

TEST_F(HostileHttpTest, ClientsMayLeaveTheQueue) {
  ServerProcess narrow({"--max_running=1"});
  HttpConnection running(narrow.http_port());
  running.Write(EndlessStream());
  ASSERT_EQ(running.ReadHead().status, 200);
  ReadEvents(running, 1);
  for (const Farewell farewell : kFarewells) {
    for (const bool stream : {true, false}) {
      HttpConnection waiting(narrow.http_port());
      waiting.Write(stream ? EndlessStream()
                           : Post("/v1/completions", R"({"prompt": "a", "max_tokens": 9})"));
      ASSERT_TRUE(narrow.MetricBecomes(kQueued, 1));
      Leave(std::move(waiting), farewell);
      EXPECT_TRUE(narrow.MetricBecomes(kQueued, 0));
    }
  }
  running.Reset();
  EXPECT_TRUE(narrow.MetricBecomes(kRunning, 0));
}

TEST_F(HostileHttpTest, AReaderThatStopsHoldsUpNobody) {
  std::vector<HttpConnection> stopped;
  for (int i = 0; i < 4; ++i) {
    stopped.push_back(Connect());
    stopped.back().Write(EndlessStream());
  }
  EXPECT_TRUE(server().MetricBecomes(kRunning, 4));  // Before the first is given up.
  for (HttpConnection& connection : stopped) ASSERT_EQ(connection.ReadHead().status, 200);
  ExpectServes();
  EXPECT_TRUE(server().MetricBecomes(kRunning, 0));
  for (HttpConnection& connection : stopped) {
    EXPECT_THAT(connection.ReadToEnd(), Not(HasSubstr("[DONE]")));
  }
}

// Neither does one that asks and asks, and never reads.
TEST_F(HostileHttpTest, AnswersThatNobodyTakesAreGivenUp) {
  HttpConnection connection = Connect();
  const std::string request = Get("/metrics");
  std::thread asking([&] {
    for (int i = 0; i < 5000 && connection.Write(request); ++i) continue;
  });
  for (int i = 0; i < 5; ++i) ExpectServes();
  asking.join();
  ExpectNothingLeft();
}

TEST_F(HostileHttpTest, ConnectionsBeyondTheLimitAreToldSo) {
  std::vector<HttpConnection> all;
  for (int i = 0; i < kMaxConnections; ++i) {
    all.push_back(Connect());
    ASSERT_EQ(all.back().Call({.target = "/healthz"}).status, 200) << i;
  }
  HttpConnection refused = Connect();
  const HttpReply reply = refused.Call({.target = "/healthz"});
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.Header("retry-after"), "");
  EXPECT_EQ(reply.json()["error"]["code"], "TOO_MANY_CONNECTIONS");
  EXPECT_EQ(refused.ReadToEnd(), "");
  EXPECT_EQ(all.front().Call({.target = "/healthz"}).status, 200);
  all.clear();
  EXPECT_TRUE(Eventually(
      [] { return CallHttp(server().http_port(), {.target = "/healthz"}).status == 200; }));
}

TEST_F(HostileHttpTest, MethodsThatAPathDoesNotHave) {
  HttpConnection connection = Connect();
  for (const std::string method : {"DELETE", "PUT", "BREW", "OPTIONS", "TRACE"}) {
    const HttpReply reply = connection.Call({.method = method, .target = "/healthz"});
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(reply.Header("allow"), "GET, HEAD") << method;
  }
  const HttpReply head = connection.Call({.method = "HEAD", .target = "/healthz"});
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Header("content-length"), "6");
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(connection.Call({.method = "HEAD", .target = "/v1/completions"}).status, 405);
  EXPECT_EQ(connection.Call({.target = "http://elsewhere/healthz?a=b"}).body, "alive\n");
  EXPECT_EQ(connection.Call({.method = "OPTIONS", .target = "*"}).status, 404);
  EXPECT_EQ(connection.Call({.target = "/../healthz"}).status, 404);
  EXPECT_EQ(connection.Call({.target = "//healthz"}).status, 404);
}

TEST_F(HostileHttpTest, ABodyIsAskedForWhereTheClientWaits) {
  const std::string body = R"({"tokens": []})";
  const auto expecting = [](size_t length) {
    return "POST /v1/detokenize HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
           "Expect: 100-continue\r\nContent-Length: " +
           std::to_string(length) + "\r\n\r\n";
  };
  HttpConnection connection = Connect();
  connection.Write(expecting(body.size()));
  std::string text;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    connection.Write(body);
  });
  text = connection.ReadToEnd();
  later.join();
  EXPECT_THAT(text, StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));

  HttpConnection too_much = Connect();
  too_much.Write(expecting(kMaxBodyBytes + 1));
  EXPECT_THAT(too_much.ReadToEnd(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HostileHttpTest, ClientsOfHttp10) {
  HttpConnection plain = Connect();
  plain.Write("GET /healthz HTTP/1.0\r\n\r\n");
  const std::string text = plain.ReadToEnd();
  EXPECT_THAT(text, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\nalive\n"));

  // There are no chunks in HTTP/1.0.
  const std::string body = R"({"prompt": "Once", "stream": true, "max_tokens": 5})";
  HttpConnection stream = Connect();
  stream.Write("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
               "\r\n\r\n" + body);
  const std::string events = stream.ReadToEnd();
  EXPECT_THAT(events, Not(HasSubstr("chunked")));
  EXPECT_THAT(events, HasSubstr("\r\n\r\ndata: {"));
  EXPECT_THAT(events, testing::EndsWith("\n\ndata: [DONE]\n\n"));
}

// Without the flag, no page of another origin can read an answer or change anything.
TEST_F(HostileHttpTest, OtherOriginsAreShutOutByDefault) {
  HttpConnection connection = Connect();
  const HttpReply read =
      connection.Call({.target = "/v1/models", .headers = {{"Origin", "http://evil.example"}}});
  EXPECT_EQ(read.Header("access-control-allow-origin"), "");
  const HttpReply asked = connection.Call(
      {.method = "OPTIONS",
       .target = "/v1/completions",
       .headers = {{"Origin", "http://evil.example"}, {"Access-Control-Request-Method", "POST"}}});
  EXPECT_EQ(asked.status, 403);
  EXPECT_EQ(asked.Header("access-control-allow-origin"), "");
  const HttpReply changed =
      CallHttp(server().http_port(), {.method = "POST",
                                      .target = "/v1/sessions",
                                      .body = R"({"id": "evil"})",
                                      .headers = {{"Origin", "http://evil.example"}}});
  EXPECT_EQ(changed.status, 403);
}

TEST(AllowedOriginsTest, MayAskAndRead) {
  const ServerProcess server({"--http_allowed_origins=http://good.example,http://fine.example"});
  for (const std::string origin : {"http://good.example", "http://fine.example"}) {
    HttpConnection connection(server.http_port());
    const HttpReply asked =
        connection.Call({.method = "OPTIONS",
                         .target = "/v1/completions",
                         .headers = {{"Origin", origin},
                                     {"Access-Control-Request-Method", "POST"},
                                     {"Access-Control-Request-Headers", "authorization"}}});
    EXPECT_EQ(asked.status, 204);
    EXPECT_EQ(asked.Header("access-control-allow-origin"), origin);
    EXPECT_THAT(asked.Header("access-control-allow-methods"), HasSubstr("POST"));
    EXPECT_EQ(asked.Header("access-control-allow-headers"), "authorization");
    const HttpReply read =
        connection.Call({.target = "/v1/models", .headers = {{"Origin", origin}}});
    EXPECT_EQ(read.status, 200);
    EXPECT_EQ(read.Header("access-control-allow-origin"), origin);
    EXPECT_THAT(read.Header("vary"), HasSubstr("Origin"));
  }
  for (const std::string origin : {"http://good.example.evil", "https://good.example", "null"}) {
    const HttpReply reply =
        CallHttp(server.http_port(), {.target = "/v1/models", .headers = {{"Origin", origin}}});
    EXPECT_EQ(reply.Header("access-control-allow-origin"), "") << origin;
  }
}

// Each kind of trouble, again and again: memory does not grow with the rounds.
TEST_F(HostileHttpTest, NothingIsKeptOfAThousandRounds) {
  const auto rounds =
      static_cast<int>(Setting("FERMATA_HOSTILE_ROUNDS", UnderSanitizer() ? 20 : 1000));
  const std::string kUnfinished =
      "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{";
  const std::string kRequests[] = {
      Get("/healthz"),
      Get("/nothing"),
      "garbage\r\n\r\n",
      Get("/" + std::string(kMaxHeaderBytes, 'a')),
      Post("/v1/completions", "{\"prompt\": \"\xff\"}"),
      Post("/v1/completions", std::string(10'000, '[')),
      "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
      "POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      kUnfinished,
      EndlessStream(),
  };
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (const std::string& request : kRequests) {
        HttpConnection connection = Connect();
        connection.Write(request);
        if (i % 2 == 0 && request != kUnfinished) connection.ReadHead();
        Leave(std::move(connection), i % 4 < 2 ? Farewell::kReset : Farewell::kClose);
      }
    }
    ExpectNothingLeft();
    return server().Metric("process_resident_memory_bytes");
  };
  run(rounds / 10);  // What is made once.
  const double before = run(rounds / 10);
  const double after = run(rounds);
  if (!UnderSanitizer()) {
    EXPECT_LT(after - before, 4 << 20);
  }
}

}  // namespace
}  // namespace fermata::e2e
