#include "server/openai/chat_request.h"

#include <string>
#include <utility>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

constexpr int32_t kLimit = 99;
const std::string kHello = R"("messages": [{"role": "user", "content": "Hello"}])";

absl::StatusOr<ChatRequest> Read(const std::string& fields) {
  HttpRequest http;
  http.body = "{" + fields + "}";
  return ReadChatRequest(http, "tiny", kLimit);
}

ChatRequest MustRead(const std::string& fields) {
  const auto chat = Read(fields);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.value_or(ChatRequest());
}

TEST(ChatRequestTest, RolesAndContents) {
  const ChatRequest chat = MustRead(R"("messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "name": "tom", "content": [{"type": "text", "text": "Hel"},
                                                  {"type": "text", "text": "lo"}]},
      {"role": "assistant", "content": null, "tool_calls": []},
      {"role": "user", "content": ""}])");
  ASSERT_EQ(chat.messages.size(), 4);
  EXPECT_EQ(chat.messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(chat.messages[1].content, "Hello");
  EXPECT_EQ(chat.messages[2].role, ChatRole::kAssistant);
  EXPECT_EQ(chat.messages[2].content, "");
}

TEST(ChatRequestTest, LimitsByEitherName) {
  EXPECT_EQ(MustRead(kHello).request.turn.sampling().max_new_tokens(), kLimit);
  EXPECT_EQ(MustRead(kHello + R"(, "max_tokens": 5)").request.turn.sampling().max_new_tokens(), 5);
  EXPECT_EQ(MustRead(kHello + R"(, "max_tokens": 5, "max_completion_tokens": 6)")
                .request.turn.sampling()
                .max_new_tokens(),
            6);
}

TEST(ChatRequestTest, Logprobs) {
  EXPECT_FALSE(MustRead(kHello).request.logprobs.has_value());
  EXPECT_EQ(MustRead(kHello + R"(, "logprobs": true)").request.logprobs, 0);
  EXPECT_EQ(MustRead(kHello + R"(, "logprobs": true, "top_logprobs": 3)").request.logprobs, 3);
}

TEST(ChatRequestTest, WhatCanNotBeDoneIsRefusedByName) {
  EXPECT_TRUE(Read(kHello + R"(, "tools": [], "response_format": {"type": "text"})").ok());
  const std::pair<std::string, const char*> cases[] = {
      {kHello + R"(, "tools": [{}])", "tools"},
      {kHello + R"(, "functions": [{}])", "functions"},
      {kHello + R"(, "response_format": {"type": "json_object"})", "response_format.type"},
      {kHello + R"(, "modalities": ["text", "audio"])", "modalities"},
      {kHello + R"(, "top_logprobs": 3)", "top_logprobs"},
      {kHello + R"(, "logprobs": 3)", "logprobs"},
      {R"("prompt": "x")", "messages"},
      {R"("messages": [])", "messages"},
      {R"("messages": ["hi"])", "messages[0]"},
      {R"("messages": [{"content": "hi"}])", "messages[0].role"},
      {R"("messages": [{"role": "tool", "content": "hi"}])", "messages[0].role"},
      {R"("messages": [{"role": "user"}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": 5}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": [{"type": "image_url"}]}])",
       "messages[0].content[0].type"},
      {R"("messages": [{"role": "assistant", "tool_calls": [{}]}])", "messages[0].tool_calls"},
  };
  for (const auto& [fields, named] : cases) {
    EXPECT_EQ(DetailsOf(Read(fields).status()).metadata["field"], named) << fields;
  }
}

}  // namespace
}  // namespace fermata
