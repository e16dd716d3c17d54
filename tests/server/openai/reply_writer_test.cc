#include "server/openai/reply_writer.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "boost/asio/co_spawn.hpp"
#include "boost/asio/detached.hpp"
#include "boost/asio/io_context.hpp"
#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/openai/chat_reply.h"
#include "server/openai/completion_reply.h"
#include "tests/server/openai/marked_tokenizer.h"

namespace fermata {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Keeps what is sent.
class Recorder final : public HttpExchange {
 public:
  explicit Recorder(boost::asio::io_context& context) : context_(context) {}

  const HttpRequest& request() const override { return request_; }
  boost::asio::any_io_executor executor() const override { return context_.get_executor(); }
  Awaitable<absl::StatusOr<std::string>> ReadBody() override { co_return std::string(); }
  Awaitable<void> Reply(HttpResponse response) override {
    reply = std::move(response);
    ++replies;
    co_return;
  }
  Awaitable<bool> BeginStream(HttpResponse head) override {
    reply = std::move(head);
    co_return true;
  }
  Awaitable<bool> Write(std::string part) override {
    stream += part;
    co_return true;
  }
  Awaitable<bool> EndStream() override {
    ended = true;
    co_return true;
  }
  void OnGone(std::function<void()>) override {}

  // The events of the stream, "[DONE]" and comments as they are.
  std::vector<json> Events() const {
    std::vector<json> events;
    for (size_t at = 0; at < stream.size();) {
      const size_t end = stream.find("\n\n", at);
      if (end == std::string::npos) ADD_FAILURE() << "an event does not end";
      const std::string line = stream.substr(at, end - at);
      const bool plain = !line.starts_with("data: {");
      events.push_back(plain ? json(line) : json::parse(line.substr(6)));
      at = end + 2;
    }
    return events;
  }

  HttpResponse reply;
  std::string stream;
  int replies = 0;
  bool ended = false;

 private:
  boost::asio::io_context& context_;
  const HttpRequest request_;
};

class ReplyWriterTest : public ::testing::Test {
 protected:
  void Run(const std::function<Awaitable<void>(ReplyWriter&)>& body, ReplyWriter::Options options,
           bool chat = false) {
    const ReplyShape::Options shape = {
        .head = {.id = "x-1"}, .tokenizer = tokenizer_.get(), .with_logprobs = false};
    if (chat) {
      options.shape = std::make_shared<ChatReply>(shape);
    } else {
      options.shape = std::make_shared<CompletionReply>(shape);
    }
    ReplyWriter writer(recorder_, options);
    boost::asio::co_spawn(context_, body(writer), boost::asio::detached);
    context_.run();
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = MarkedTokenizer({});
  boost::asio::io_context context_;
  Recorder recorder_{context_};
};

ReplyPiece Text(int index, const std::string& text) {
  ReplyPiece piece;
  piece.index = index;
  piece.text = text;
  return piece;
}

ReplyPiece End(int index) {
  ReplyPiece piece;
  piece.index = index;
  piece.finish = v1::LENGTH;
  return piece;
}

Awaitable<void> SayTwo(ReplyWriter& writer) {
  co_await writer.Announce(0);
  co_await writer.Add(Text(0, "He"));
  co_await writer.Announce(1);
  co_await writer.Add(Text(1, "Oh"));
  co_await writer.Ping();
  co_await writer.Add(End(1));
  co_await writer.Add(Text(0, "y"));
  co_await writer.Add(End(0));
  std::optional<v1::SessionAfter> session(std::in_place);
  session->set_id("tom");
  const ReplyUsage usage = {.prompt_tokens = 1, .completion_tokens = 3};
  co_await writer.Finish(usage, session);
}

TEST_F(ReplyWriterTest, WholeAnswersAreTheirPiecesPutTogether) {
  Run(SayTwo, {.choices = 2, .session = "tom"});
  EXPECT_EQ(recorder_.replies, 1);
  EXPECT_EQ(recorder_.stream, "");
  const json reply = json::parse(recorder_.reply.body);
  EXPECT_EQ(reply["choices"][0]["text"], "Hey");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["choices"][1]["text"], "Oh");
  EXPECT_EQ(reply["usage"]["total_tokens"], 4);
  EXPECT_EQ(reply["session"]["id"], "tom");
  EXPECT_THAT(recorder_.reply.headers, ::testing::Contains(::testing::Pair("X-Session-Id", "tom")));
}

TEST_F(ReplyWriterTest, Streams) {
  Run(SayTwo, {.stream = true, .choices = 2}, true);
  EXPECT_THAT(recorder_.reply.content_type, HasSubstr("text/event-stream"));
  EXPECT_TRUE(recorder_.ended);
  const std::vector<json> events = recorder_.Events();
  ASSERT_EQ(events.size(), 9u);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events[1]["choices"][0]["delta"], (json{{"content", "He"}}));
  EXPECT_EQ(events[2]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events[2]["choices"][0]["index"], 1);
  EXPECT_EQ(events[4], ": ping");
  EXPECT_EQ(events[5]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[6]["choices"][0]["delta"]["content"], "y");
  EXPECT_TRUE(events[6]["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(events[6].contains("usage"));
  EXPECT_FALSE(events[6].contains("session"));
  EXPECT_EQ(events[7]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[7]["session"]["id"], "tom");
  EXPECT_EQ(events[8], "data: [DONE]");
}

TEST_F(ReplyWriterTest, UsageComesLastAndElseAsNull) {
  Run(SayTwo, {.stream = true, .include_usage = true, .choices = 2});
  const std::vector<json> events = recorder_.Events();
  ASSERT_EQ(events.size(), 8u);
  for (const size_t i : {0, 1, 3, 4, 5}) EXPECT_TRUE(events[i].at("usage").is_null()) << i;
  EXPECT_EQ(events[6]["choices"], json::array());
  EXPECT_EQ(events[6]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events[6]["session"]["id"], "tom");
}

Awaitable<void> FailEarly(ReplyWriter& writer) {
  const absl::Status status = InvalidField("n", "is odd");
  co_await writer.Fail(status);
}

Awaitable<void> FailLate(ReplyWriter& writer) {
  co_await writer.Add(Text(0, "He"));
  const absl::Status status = InvalidField("n", "is odd");
  co_await writer.Fail(status);
}

TEST_F(ReplyWriterTest, FailuresBeforeAndInAStream) {
  Run(FailEarly, {.stream = true});
  EXPECT_EQ(recorder_.reply.status, 400);
  EXPECT_EQ(recorder_.replies, 1);
  context_.restart();
  Run(FailLate, {.stream = true});
  EXPECT_EQ(recorder_.replies, 1);
  const std::vector<json> events = recorder_.Events();
  EXPECT_EQ(events.at(1)["error"]["param"], "n");
  EXPECT_EQ(events.at(2), "data: [DONE]");
  EXPECT_TRUE(recorder_.ended);
}

}  // namespace
}  // namespace fermata
