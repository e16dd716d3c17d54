#include "server/openai/completion_request.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/openai/marked_tokenizer.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

absl::StatusOr<OpenAiRequest> Read(const std::string& body, const HttpHeaders& headers = {}) {
  HttpRequest http;
  http.headers = headers;
  http.body = body;
  return ReadCompletionRequest(http, "tiny", *MarkedTokenizer({}));
}

OpenAiRequest MustRead(const std::string& body, const HttpHeaders& headers = {}) {
  const auto request = Read(body, headers);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.value_or(OpenAiRequest());
}

// The field that is named when the body is refused.
std::string Refused(const std::string& body, const HttpHeaders& headers = {}) {
  const absl::Status status = Read(body, headers).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << body;
  return DetailsOf(status).metadata["field"];
}

TEST(CompletionRequestTest, DefaultsAreThoseOfTheApi) {
  const OpenAiRequest request = MustRead(R"({"model": "tiny", "prompt": "Once"})");
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.best_of, 1);
  EXPECT_EQ(request.turn.sampling().max_new_tokens(), 16);
  EXPECT_FALSE(request.turn.sampling().has_temperature());
  EXPECT_FALSE(request.turn.has_session());
  ASSERT_EQ(request.prompts.size(), 1);
  EXPECT_EQ(request.prompts[0].prompt.text, "Once");
  EXPECT_FALSE(request.prompts[0].prompt.parse_special);
}

TEST(CompletionRequestTest, PromptsOfAllKinds) {
  EXPECT_THAT(MustRead(R"({"prompt": [5, 6]})").prompts[0].prompt.token_ids, ElementsAre(5, 6));
  const OpenAiRequest texts = MustRead(R"({"prompt": ["a", "b"]})");
  ASSERT_EQ(texts.prompts.size(), 2);
  EXPECT_EQ(texts.prompts[1].prompt.text, "b");
  const OpenAiRequest lists = MustRead(R"({"prompt": [[1], [2, 3]]})");
  ASSERT_EQ(lists.prompts.size(), 2);
  EXPECT_THAT(lists.prompts[1].prompt.token_ids, ElementsAre(2, 3));
}

TEST(CompletionRequestTest, FieldsReachTheTurn) {
  const OpenAiRequest request = MustRead(R"({
      "prompt": "x", "max_tokens": 7, "temperature": 0.5, "top_p": 0.25, "n": 2, "best_of": 3,
      "stop": ["a", "b"], "seed": -1, "logprobs": 4, "echo": true, "logit_bias": {"5": -100, "6": 1},
      "presence_penalty": 1, "frequency_penalty": -2, "user": "anna", "top_k": 8, "min_p": 0.125,
      "repetition_penalty": 1.5, "ignore_eos": true, "min_tokens": 2, "stop_token_ids": [9],
      "priority": -3, "something_else": {"unknown": true}})");
  const v1::SamplingParams& sampling = request.turn.sampling();
  EXPECT_EQ(sampling.max_new_tokens(), 7);
  EXPECT_EQ(sampling.temperature(), 0.5f);
  EXPECT_EQ(sampling.top_p(), 0.25f);
  EXPECT_THAT(sampling.stop(), ElementsAre("a", "b"));
  EXPECT_EQ(sampling.seed(), ~uint64_t{0});
  EXPECT_EQ(sampling.logprobs(), 4);
  EXPECT_THAT(sampling.logit_bias(), UnorderedElementsAre(Pair(5, -100), Pair(6, 1)));
  EXPECT_EQ(sampling.presence_penalty(), 1);
  EXPECT_EQ(sampling.frequency_penalty(), -2);
  EXPECT_EQ(sampling.top_k(), 8);
  EXPECT_EQ(sampling.min_p(), 0.125f);
  EXPECT_EQ(sampling.repetition_penalty(), 1.5f);
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_EQ(sampling.min_new_tokens(), 2);
  EXPECT_THAT(sampling.stop_token_ids(), ElementsAre(9));
  EXPECT_EQ(request.turn.tenant(), "anna");
  EXPECT_EQ(request.turn.priority(), -3);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.best_of, 3);
  EXPECT_EQ(request.prompts[0].text, "x");
  EXPECT_THAT(request.prompts[0].scored, ElementsAre('x' + 1));
}

TEST(CompletionRequestTest, SessionsByFieldOrHeader) {
  const OpenAiRequest field = MustRead(R"({"session": "tom", "durability": "disk"})");
  EXPECT_EQ(field.session(), "tom");
  EXPECT_TRUE(field.turn.session().create_if_missing());
  EXPECT_EQ(field.turn.session().durability(), v1::DISK);
  EXPECT_FALSE(field.turn.session().has_expected_position());
  const OpenAiRequest guarded = MustRead(R"({"session": "tom", "expected_position": 0})");
  EXPECT_TRUE(guarded.turn.session().has_expected_position());
  EXPECT_EQ(guarded.turn.session().expected_position(), 0);
  EXPECT_EQ(MustRead("{}", {{"X-Session-ID", "tom"}}).session(), "tom");
  EXPECT_EQ(Refused(R"({"session": "tom"})", {{"X-Session-Id", "ann"}}), "session");
  EXPECT_EQ(Refused(R"({"session": "tom", "n": 2})"), "n");
  EXPECT_EQ(Refused(R"({"session": "tom", "prompt": ["a", "b"]})"), "prompt");
  EXPECT_EQ(Refused(R"({"session": "tom", "best_of": 2})"), "best_of");
}

TEST(CompletionRequestTest, KeysOfRequestsThatAreSentTwice) {
  const OpenAiRequest request =
      MustRead(R"({"prompt": "x", "on_disconnect": "finish"})", {{"Idempotency-Key", "k-1"}});
  EXPECT_EQ(request.turn.request_id(), "k-1");
  EXPECT_EQ(request.turn.on_disconnect(), v1::ON_DISCONNECT_FINISH);
  EXPECT_EQ(Refused(R"({"prompt": "x", "on_disconnect": "finish"})"), "on_disconnect");
  EXPECT_EQ(Refused(R"({"prompt": "x", "n": 2})", {{"Idempotency-Key", "k"}}), "Idempotency-Key");
}

TEST(CompletionRequestTest, NullIsAbsent) {
  const OpenAiRequest request = MustRead(
      R"({"model": null, "prompt": "x", "max_tokens": null, "stop": null, "logit_bias": null,
          "stream_options": null, "session": null, "suffix": null, "seed": null})");
  EXPECT_EQ(request.turn.sampling().max_new_tokens(), 16);
  EXPECT_FALSE(request.turn.sampling().has_seed());
}

TEST(CompletionRequestTest, WrongTypesAndRangesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("max_tokens": "7")", "max_tokens"},
      {R"("max_tokens": -1)", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("max_tokens": 18446744073709551615)", "max_tokens"},
      {R"("temperature": 2.5)", "temperature"},
      {R"("temperature": true)", "temperature"},
      {R"("top_p": 1.5)", "top_p"},
      {R"("n": 0)", "n"},
      {R"("n": 17)", "n"},
      {R"("n": 3, "best_of": 2)", "best_of"},
      {R"("best_of": 2, "stream": true)", "best_of"},
      {R"("stream": 1)", "stream"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("stream_options": {})", "stream_options"},
      {R"("stop": 5)", "stop"},
      {R"("stop": ["a", 5])", "stop[1]"},
      {R"("seed": 1.5)", "seed"},
      {R"("logprobs": true)", "logprobs"},
      {R"("logprobs": 21)", "logprobs"},
      {R"("echo": "yes")", "echo"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"5": 101})", "logit_bias"},
      {R"("logit_bias": [])", "logit_bias"},
      {R"("user": 5)", "user"},
      {R"("suffix": "end")", "suffix"},
      {R"("prompt": {})", "prompt"},
      {R"("prompt": [1, -2])", "prompt[1]"},
      {R"("prompt": ["a", 5])", "prompt[1]"},
      {R"("prompt": ["a", ""])", "prompt[1]"},
      {R"("prompt": [[1], [true]])", "prompt[1][0]"},
      {R"("session": "")", "session"},
      {R"("durability": "disk")", "durability"},
      {R"("session": "s", "durability": "tape")", "durability"},
      {R"("expected_position": 3)", "expected_position"},
      {R"("session": "s", "expected_position": -1)", "expected_position"},
      {R"("model": 5)", "model"},
      {R"("priority": 11)", "priority"},
  };
  for (const auto& [fields, named] : cases) {
    EXPECT_EQ(Refused("{" + std::string(fields) + "}"), named) << fields;
  }
}

TEST(CompletionRequestTest, OtherModelsAreNotFound) {
  EXPECT_TRUE(Read(R"({"model": "default", "prompt": "x"})").ok());
  const absl::Status status = Read(R"({"model": "gpt-4", "prompt": "x"})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, "model_not_found");
  EXPECT_EQ(DetailsOf(status).metadata["field"], "model");
}

TEST(CompletionRequestTest, BodiesThatAreNoObject) {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("{\"prompt\": \"\xC3\x28\"}"),
        std::string(100000, '['), std::string("{\"a\": 1, \"a\": 2}")}) {
    EXPECT_EQ(DetailsOf(Read(body).status()).reason, "INVALID_JSON") << body.substr(0, 20);
  }
  EXPECT_EQ(Refused("[]"), "body");
}

}  // namespace
}  // namespace fermata
