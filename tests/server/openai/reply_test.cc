// The shapes are those of OpenAI's API reference.

#include "server/openai/reply.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/json.h"
#include "server/openai/chat_reply.h"
#include "server/openai/completion_reply.h"
#include "tests/server/openai/marked_tokenizer.h"

namespace fermata {
namespace {

using nlohmann::json;

class ReplyTest : public ::testing::Test {
 protected:
  ReplyShape::Options Options(bool with_logprobs) const {
    return {.head = {.id = "x-1", .created = 5, .model = "tiny", .fingerprint = "fp_0"},
            .tokenizer = tokenizer_.get(),
            .with_logprobs = with_logprobs};
  }

  // "é" in two tokens, of which the first has no log-probability.
  static ReplyPiece Scored() {
    ReplyPiece piece;
    piece.index = 1;
    piece.text = "aé";
    piece.text_offset = 7;
    piece.tokens = {{.id = 'a' + 1, .logprob = {}, .top = {}},
                    {.id = 0xC3 + 1, .logprob = -0.5f, .top = {{'b' + 1, -0.25f}}},
                    {.id = 0xA9 + 1, .logprob = -1.0f, .top = {{0xA9 + 1, -1.0f}}}};
    piece.finish = v1::LENGTH;
    return piece;
  }

  static json AsJson(const nlohmann::ordered_json& reply) { return json::parse(Dump(reply)); }

  const std::unique_ptr<Tokenizer> tokenizer_ = MarkedTokenizer({});
};

TEST_F(ReplyTest, CompletionChoice) {
  const CompletionReply shape(Options(true));
  EXPECT_EQ(AsJson(shape.WholeChoice(Scored())), json::parse(R"({
      "text": "aé", "index": 1, "finish_reason": "length", "logprobs": {
        "tokens": ["a", "bytes:\\xc3", "bytes:\\xa9"],
        "token_logprobs": [null, -0.5, -1.0],
        "top_logprobs": [null, {"b": -0.25, "bytes:\\xc3": -0.5}, {"bytes:\\xa9": -1.0}],
        "text_offset": [7, 8, 9]}})"));
  EXPECT_TRUE(CompletionReply(Options(false)).WholeChoice(Scored())["logprobs"].is_null());
}

TEST_F(ReplyTest, ChatChoice) {
  ReplyPiece piece = Scored();
  piece.tokens.erase(piece.tokens.begin(), piece.tokens.begin() + 2);
  const ChatReply shape(Options(true));
  const json logprobs = json::parse(R"({"refusal": null, "content": [
      {"token": "bytes:\\xa9", "logprob": -1.0, "bytes": [169],
       "top_logprobs": [{"token": "bytes:\\xa9", "logprob": -1.0, "bytes": [169]}]}]})");
  EXPECT_EQ(AsJson(shape.WholeChoice(piece)),
            (json{{"index", 1},
                  {"message", {{"role", "assistant"}, {"content", "aé"}, {"refusal", nullptr}}},
                  {"logprobs", logprobs},
                  {"finish_reason", "length"}}));
  EXPECT_EQ(AsJson(shape.ChunkChoice(piece)), (json{{"index", 1},
                                                    {"delta", {{"content", "aé"}}},
                                                    {"logprobs", logprobs},
                                                    {"finish_reason", "length"}}));
}

TEST_F(ReplyTest, ChatStreamsBeginWithTheRoleAndEndWithNothing) {
  const ChatReply shape(Options(false));
  ReplyPiece first;
  first.first = true;
  EXPECT_EQ(AsJson(shape.ChunkChoice(first)), json::parse(R"({"index": 0, "logprobs": null,
      "delta": {"role": "assistant", "content": "", "refusal": null}, "finish_reason": null})"));
  ReplyPiece last;
  last.finish = v1::STOP_TOKEN;
  EXPECT_EQ(AsJson(shape.ChunkChoice(last)), json::parse(R"({"index": 0, "logprobs": null,
      "delta": {}, "finish_reason": "stop"})"));
}

TEST_F(ReplyTest, Envelopes) {
  const ChatReply chat(Options(false));
  const json head = {{"id", "x-1"},
                     {"created", 5},
                     {"model", "tiny"},
                     {"system_fingerprint", "fp_0"},
                     {"choices", json::array()}};
  json expected = head;
  expected["object"] = "chat.completion";
  EXPECT_EQ(AsJson(chat.Whole()), expected);
  expected["object"] = "chat.completion.chunk";
  EXPECT_EQ(AsJson(chat.Chunk()), expected);
  expected["object"] = "text_completion";
  EXPECT_EQ(AsJson(CompletionReply(Options(false)).Chunk()), expected);
}

TEST_F(ReplyTest, UsageAddsUp) {
  EXPECT_EQ(AsJson(UsageJson({.prompt_tokens = 5, .completion_tokens = 3, .cached_tokens = 2})),
            json::parse(R"({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8,
                            "prompt_tokens_details": {"cached_tokens": 2}})"));
}

TEST_F(ReplyTest, OtherEndsAreToldInDetail) {
  const CompletionReply shape(Options(false));
  ReplyPiece piece;
  piece.finish = v1::TIME_LIMIT;
  EXPECT_EQ(shape.WholeChoice(piece)["finish_reason"], "length");
  EXPECT_EQ(shape.WholeChoice(piece)["finish_detail"], "time_limit");
  piece.finish = v1::STOP;
  EXPECT_EQ(shape.WholeChoice(piece)["finish_reason"], "stop");
  EXPECT_FALSE(shape.WholeChoice(piece).contains("finish_detail"));
}

}  // namespace
}  // namespace fermata
