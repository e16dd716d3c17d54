// An HTTP request's way from its bytes to the messages that calls begin with: the server's parser and
// its limits, target, router, and the readers of bodies. How the bytes are cut makes no difference, and
// whatever they say is answered by one whole reply.

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "boost/asio/buffer.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "boost/beast/http/write.hpp"
#include "engine/base/utf8.h"
#include "engine/tokenizer/byte_tokenizer.h"
#include "google/protobuf/util/message_differencer.h"
#include "nlohmann/json.hpp"
#include "server/http/http_error.h"
#include "server/http/message.h"
#include "server/http/router.h"
#include "server/http/wire.h"
#include "server/openai/chat_request.h"
#include "server/openai/chat_template.h"
#include "server/openai/completion_request.h"
#include "server/rest/proto_json.h"
#include "server/rest/requests.h"
#include "tests/fuzz/fuzz.h"

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using fermata::HttpRequest;
using fermata::HttpResponse;

constexpr unsigned kHttp11 = 11;

void Require(bool holds) {
  if (!holds) std::abort();
}

const fermata::HttpOptions& Options() {
  static const fermata::HttpOptions options = {
      .max_header_bytes = 1000, .max_body_bytes = 2000, .allowed_origins = {"https://a.example"}};
  return options;
}

const fermata::HttpRouter& Router() {
  static const fermata::HttpRouter* const router = [] {
    auto* routes = new fermata::HttpRouter;
    for (const auto& [method, path] : {std::pair{"GET", "/healthz"},
                                       {"POST", "/v1/completions"},
                                       {"GET", "/v1/sessions"},
                                       {"PATCH", "/v1/sessions/{id}"},
                                       {"POST", "/v1/sessions/import"},
                                       {"POST", "/v1/sessions/{id}/fork"}}) {
      routes->Add(fermata::HttpRoute{.method = method, .path = path, .handler = nullptr});
    }
    return routes;
  }();
  return *router;
}

// What a connection brings, of which the parsers see a first piece and then the rest.
class Input {
 public:
  Input(std::string_view bytes, size_t cut) : bytes_(bytes), end_(cut) {}

  // As Beast's reading does it.
  template <typename Parser, typename Done>
  error_code Read(Parser& parser, Done done) {
    error_code error;
    while (!(parser.*done)()) {
      const size_t taken = parser.put(asio::buffer(bytes_.data() + at_, end_ - at_), error);
      at_ += taken;
      if (error && error != http::error::need_more) return error;
      if (!error && taken > 0) continue;
      if (end_ == bytes_.size()) return http::error::partial_message;
      end_ = bytes_.size();
    }
    return {};
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t end_;
  size_t at_ = 0;
};

// That what came from a client makes no second reply of one.
void CheckReply(const HttpResponse& reply, const HttpRequest& request) {
  http::response<http::string_body> message(
      fermata::ToHeader(reply, request, Options(), kHttp11, /*keep_alive=*/true).base(),
      reply.body);
  message.prepare_payload();
  std::ostringstream text;
  text << message;
  const std::string bytes = text.str();
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  error_code error;
  Require(parser.put(asio::buffer(bytes), error) == bytes.size() && !error && parser.is_done());
  Require(parser.get().body() == reply.body);
  Require(std::ranges::distance(parser.get().base()) == std::ranges::distance(message.base()));
  if (reply.status >= 400) {
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    Require(json.is_object() && json["error"]["message"].is_string());
  }
}

template <typename Message>
void CheckMessage(const absl::StatusOr<Message>& message, const HttpRequest& request) {
  if (!message.ok()) return CheckReply(fermata::ErrorResponse(message.status()), request);
  Message again;
  Require(fermata::FromJson(fermata::ToJson(*message), &again).ok());
  Require(google::protobuf::util::MessageDifferencer::Equals(again, *message));
}

void ReadOpenAi(const HttpRequest& request) {
  static const fermata::ByteTokenizer tokenizer;
  const auto completion = fermata::ReadCompletionRequest(request, "model", tokenizer);
  if (!completion.ok()) CheckReply(fermata::ErrorResponse(completion.status()), request);
  const auto chat = fermata::ReadChatRequest(request, "model", 100);
  if (!chat.ok()) return CheckReply(fermata::ErrorResponse(chat.status()), request);
  for (const fermata::ChatTemplate& form : fermata::ChatTemplates()) {
    for (const std::vector<int32_t>& tail : {std::vector<int32_t>(), {10, 10}}) {
      const auto ids = fermata::RenderChat(form, tokenizer, chat->messages, tail, 0);
      if (!ids.ok()) CheckReply(fermata::ErrorResponse(ids.status()), request);
    }
  }
}

// All of them, wherever the request was for: they are too many to be found by their paths.
void ReadMessages(HttpRequest request) {
  request.parameters.emplace("id", "fox");
  CheckMessage(fermata::ToGetModel(request), request);
  CheckMessage(fermata::ToCreateSession(request), request);
  CheckMessage(fermata::ToGetSession(request), request);
  CheckMessage(fermata::ToListSessions(request), request);
  CheckMessage(fermata::ToUpdateSession(request), request);
  CheckMessage(fermata::ToDeleteSession(request), request);
  CheckMessage(fermata::ToForkSession(request), request);
  CheckMessage(fermata::ToRewindSession(request), request);
  CheckMessage(fermata::ToListCheckpoints(request), request);
  CheckMessage(fermata::ToExportSession(request), request);
  CheckMessage(fermata::ToImportOptions(request), request);
  ReadOpenAi(request);
}

// One request as connection.cc takes it, or the answer to what is none; nullopt where nobody is left.
struct Taken {
  HttpRequest request;
  std::optional<HttpResponse> answer;
  bool goes_on = false;
};
std::optional<Taken> Take(Input& input) {
  fermata::HttpHeaderParser header;
  header.header_limit(Options().max_header_bytes);
  header.body_limit(boost::none);
  error_code error = input.Read(header, &fermata::HttpHeaderParser::is_header_done);
  Taken taken;
  if (error) {
    taken.answer = fermata::ReadError(error);
    return taken.answer.has_value() ? std::optional(taken) : std::nullopt;
  }
  taken.goes_on = header.get().keep_alive();
  taken.answer = fermata::ToRequest(header, Options(), &taken.request);
  if (taken.answer.has_value()) {
    taken.goes_on =
        taken.goes_on && header.is_done() && !taken.request.Header("Transfer-Encoding").has_value();
    return taken;
  }
  http::request_parser<http::string_body> parser(std::move(header));
  parser.body_limit(Options().max_body_bytes);
  error = input.Read(parser, &http::request_parser<http::string_body>::is_done);
  if (error) {
    taken.answer = fermata::ReadError(error);
    taken.goes_on = false;
    return taken.answer.has_value() ? std::optional(taken) : std::nullopt;
  }
  taken.request.body = std::move(parser.get().body());
  return taken;
}

void CheckRequest(HttpRequest request) {
  for (const auto& [name, value] : request.headers) {
    for (const std::string& text : {name, value}) {
      Require(text.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    }
  }
  for (const auto& [name, value] : request.query) {
    Require(fermata::IsUtf8(name) && fermata::IsUtf8(value));
  }
  if (const auto answer = fermata::AnswerPreflight(request, Options())) {
    CheckReply(*answer, request);
  }
  const fermata::HttpRouter::Found found = Router().Find(request);
  if (found.route == nullptr) CheckReply(found.answer, request);
  for (const auto& [name, value] : request.parameters) Require(fermata::IsUtf8(value));
  ReadMessages(std::move(request));
}

// The requests of a connection that were taken, as texts to be compared. What is none may be refused
// sooner or later, as it comes.
std::vector<std::string> Connection(std::string_view bytes, size_t cut, bool check) {
  std::vector<std::string> seen;
  Input input(bytes, cut);
  bool goes_on = true;
  while (goes_on && !input.at_end()) {
    std::optional<Taken> taken = Take(input);
    if (!taken.has_value()) break;
    goes_on = taken->goes_on;
    HttpRequest& request = taken->request;
    std::string text = request.method + " " + request.target + "\n";
    for (const auto& [name, value] : request.headers) text += name + ": " + value + "\n";
    text += request.body + "\n";
    if (!taken->answer.has_value()) seen.push_back(std::move(text));
    if (!check) continue;
    if (taken->answer.has_value()) {
      CheckReply(*taken->answer, request);
    } else {
      CheckRequest(std::move(request));
    }
  }
  return seen;
}

}  // namespace

// A connection's bytes; and the same as a body, which few changes would leave whole otherwise.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t cut = size == 0 ? 0 : data[0] * size / 256;
  Require(Connection(bytes, size, true) == Connection(bytes, cut, false));
  HttpRequest request;
  request.body = bytes;
  ReadMessages(std::move(request));
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  const std::string host = " HTTP/1.1\r\nHost: localhost:7412\r\n";
  const auto post = [&](const std::string& target, const std::string& body) {
    return "POST " + target + host +
           "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  };
  const std::string create = R"({"id": "fox", "labels": {"a": "b", "c": "é\ud83d\ude00"},
    "time_to_live": "3600.5s", "durability": "DISK", "max_checkpoints": 3})";
  const std::string update = R"({"expected_revision": "12", "pinned": true,
    "labels": {"values": {}}, "timeToLive": "0s", "expected_position": 5})";
  const std::string fork = R"({"new_id": "vixen", "from": {"before_last_turn": true}})";
  const std::string completion = R"({"model": "default", "prompt": ["a", "b"], "max_tokens": 5,
    "temperature": 0.5, "top_p": 1, "top_k": 40, "n": 2, "best_of": 3, "stream": true, "echo": true,
    "stream_options": {"include_usage": true}, "logprobs": 2, "logit_bias": {"5": -100, "7": 1.5},
    "stop": ["x", "yy"], "seed": -1, "user": "ann", "presence_penalty": 1, "priority": 1,
    "min_tokens": 1, "ignore_eos": true, "stop_token_ids": [1, 2], "suffix": null})";
  const std::string chat = R"({"messages": [{"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi

there"}], "name": "ann"},
    {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "?"}],
    "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 3, "session": "s",
    "durability": "memory", "on_disconnect": "cancel", "response_format": {"type": "text"}})";
  return {"GET /healthz" + host + "\r\n",
          "HEAD http://proxy/v1/sessions?page_size=10&page_token=a%2Bb&labels.a=b+c" + host +
              "Connection: keep-alive\r\nAccept: */*\r\n\r\nGET /nothing" + host + "\r\n",
          "OPTIONS /v1/sessions/fox" + host +
              "Origin: https://a.example\r\nAccess-Control-Request-Method: PATCH\r\n"
              "Access-Control-Request-Headers: content-type, if-match\r\n\r\n",
          "PATCH /v1/sessions/f%C3%B6x" + host +
              "If-Match: \"12\"\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
              "5;a=b\r\n{\"pin\r\n0c\r\nned\": true}  \r\n0\r\nTrailer: a\r\n\r\n",
          post("/v1/sessions", create),
          post("/v1/sessions/fox/fork?a=b", fork),
          post("/v1/sessions/import?replace=true&id=fox", ""),
          "GET /v1/sessions/fox/export?turns=3" + host + "Origin: http://localhost:7412\r\n\r\n",
          "GET /metrics HTTP/1.0\r\n\r\n",
          post("/v1/completions", completion),
          create,
          update,
          fork,
          completion,
          chat};
}
