// The OpenAPI document that the server serves, held against its answers: one of each operation, and
// errors. rest_test.cc holds all its answers against it, too.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/documented.h"
#include "tests/e2e/server_process.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;

TEST(OpenApiTest, EveryOperationAnswersAsDocumented) {
  ServerProcess server({"--chat_template=plain"});
  DocumentedCalls calls(server.http_port());
  const auto call = [&](const std::string& method, const std::string& target,
                        const std::string& body = "", int status = 200) {
    const HttpReply reply = calls.Call({method, target, body, {}});
    EXPECT_EQ(reply.status, status) << method << " " << target << " " << body << ": " << reply.body;
    return reply;
  };
  const std::string completions = "/v1/completions";
  const std::string chats = "/v1/chat/completions";
  for (const char* more :
       {"", R"(, "logprobs": 2)", R"(, "logprobs": 2, "echo": true, "n": 2)", R"(, "stream": true)",
        R"(, "stream": true, "logprobs": 1, "stream_options": {"include_usage": true})",
        R"(, "session": "told")", R"(, "session": "told.2", "stream": true)",
        R"(, "best_of": 3)"}) {
    call("POST", completions, std::string(R"({"prompt": "Once", "max_tokens": 5)") + more + "}");
  }
  for (const char* more :
       {"", R"(, "logprobs": true, "top_logprobs": 2)", R"(, "stream": true)",
        R"(, "stream": true, "logprobs": true, "stream_options": {"include_usage": true}, "n": 2)",
        R"(, "session": "chat")"}) {
    call("POST", chats,
         std::string(R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5)") +
             more + "}");
  }
  call("POST", completions, R"({"prompt": "Once", "top_p": 2})", 400);
  call("POST", completions, "{", 400);
  call("POST", completions, R"({"model": "other", "prompt": "Once"})", 404);
  call("POST", chats, "{}", 400);
  EXPECT_THAT(call("GET", "/v1/models").body, HasSubstr("list"));
  call("GET", "/v1/models/default");
  call("GET", "/v1/models/other", "", 404);
  call("POST", "/v1/tokenize", R"({"prompt": "Once upon"})");
  call("POST", "/v1/tokenize", R"({"messages": [{"role": "user", "content": "Hi"}]})");
  call("POST", "/v1/tokenize", "{}", 400);
  call("POST", "/v1/detokenize", R"({"tokens": [1, 2]})");
  call("POST", "/v1/detokenize", R"({"tokens": [999999]})", 400);

  const std::string session = "/v1/sessions/s";
  call("POST", "/v1/sessions", R"({"id": "s", "max_checkpoints": 3})", 201);
  call("POST", completions, R"({"prompt": "Once", "max_tokens": 2, "session": "s"})");
  call("GET", "/v1/sessions");
  call("GET", session);
  call("PATCH", session, R"({"time_to_live": "60s"})");
  call("GET", session + "/checkpoints");
  call("POST", session + "/fork", "", 201);
  const HttpReply exported = call("GET", session + "/export");
  call("POST", "/v1/sessions/import?id=t", exported.body, 201);
  call("POST", "/v1/sessions/import", exported.body, 409);
  call("POST", session + "/rewind", R"({"to": {"before_last_turn": true}})");
  call("DELETE", session);
  call("DELETE", session, "", 404);
  for (const char* path : {"/v1/model", "/openapi.json", "/metrics", "/healthz", "/readyz"}) {
    call("GET", path);
  }
  EXPECT_EQ(calls.ProblemsAndGaps(), "");
}

// A check that finds nothing in a wrong answer is none.
TEST(OpenApiTest, WhatIsNotAsDocumentedIsFound) {
  ServerProcess server;
  const HttpCall call{.target = "/v1/model"};
  const HttpReply model = CallHttp(server.http_port(), call);
  DocumentedCalls good(server.http_port());
  good.Note(call, model);
  EXPECT_EQ(good.Problems(), "");
  EXPECT_THAT(good.ProblemsAndGaps(), HasSubstr("CreateSession has not succeeded"));

  DocumentedCalls bad(server.http_port());
  const auto note = [&](const std::string& target, const auto& change) {
    HttpReply reply = model;
    nlohmann::json body = model.json();
    change(reply, body);
    reply.body = body.dump();
    bad.Note({.target = target}, reply);
  };
  note("/v1/model", [](HttpReply&, nlohmann::json& body) { body["state_bytes"] = 5; });
  note("/v1/model", [](HttpReply&, nlohmann::json& body) { body["surprise"] = "x"; });
  note("/v1/model", [](HttpReply&, nlohmann::json& body) { body.erase("fingerprint"); });
  note("/v1/model", [](HttpReply& reply, nlohmann::json&) { reply.status = 418; });
  note("/v1/model",
       [](HttpReply& reply, nlohmann::json&) { reply.headers["content-type"] = "text/html"; });
  note("/v1/modell", [](HttpReply&, nlohmann::json&) {});
  note("/v1/sessions/a", [](HttpReply&, nlohmann::json&) {});
  const std::string problems = bad.Problems();
  for (const char* what :
       {"state_bytes: 5 is not of type", "'surprise' was unexpected", "'fingerprint' is a required",
        "no such status", "content type", "no such operation", "header ETag is missing"}) {
    EXPECT_THAT(problems, HasSubstr(what));
  }
}

}  // namespace
}  // namespace fermata::e2e
