// Sessions over HTTP: the same sessions as gRPC's, by the rules of docs/rest.md.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/util/json_util.h>
#include <xxhash.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/documented.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using nlohmann::json;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

// Every answer that these tests see is held against the OpenAPI document.
class RestTest : public SharedServerTest {
 protected:
  static void SetUpTestSuite() {
    SharedServerTest::SetUpTestSuite();
    calls_ = std::make_unique<DocumentedCalls>(server().http_port());
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(calls_->Problems(), "");
    EXPECT_GT(calls_->size(), 0u);
    calls_.reset();
    SharedServerTest::TearDownTestSuite();
  }

  static HttpReply Call(const std::string& method, const std::string& target,
                        const std::string& body = "",
                        std::vector<std::pair<std::string, std::string>> headers = {}) {
    return calls_->Call({method, target, body, std::move(headers)});
  }
  static HttpReply Import(const std::string& query, const std::string& snapshot) {
    return Call("POST", "/v1/sessions/import" + query, snapshot,
                {{"Content-Type", "application/octet-stream"}});
  }
  static json Ok(const HttpReply& reply, int status = 200) {
    EXPECT_EQ(reply.status, status) << reply.body;
    return reply.status == status ? reply.json() : json::object();
  }
  // The error; its type, code and message are there.
  static json Refused(const HttpReply& reply, int status, const std::string& code) {
    EXPECT_EQ(reply.status, status) << reply.body;
    if (reply.status < 400) return json::object();
    const json error = reply.json().at("error");
    EXPECT_EQ(error.at("code"), code) << reply.body;
    return error;
  }
  // What gRPC says of the session is what the answer says.
  void ExpectSameAsGrpc(const HttpReply& reply) {
    v1::Session session;
    const auto status = google::protobuf::util::JsonStringToMessage(reply.body, &session);
    ASSERT_TRUE(status.ok()) << status << reply.body;
    EXPECT_EQ(client().GetSession(session.id())->DebugString(), session.DebugString());
    EXPECT_EQ(reply.Header("etag"), "\"" + std::to_string(session.revision()) + "\"");
  }
  std::vector<int32_t> Go(const std::string& session, const std::string& prompt, int n) {
    return RunOk(client(), On(session, Seeded(prompt, n, 11))).ids;
  }

 private:
  static inline std::unique_ptr<DocumentedCalls> calls_;
};

TEST_F(RestTest, ASessionsLife) {
  const HttpReply made = Call(
      "POST", "/v1/sessions",
      R"({"id": "kept", "labels": {"user": "änna"}, "time_to_live": "3600s", "max_checkpoints": 2})");
  Ok(made, 201);
  EXPECT_EQ(made.Header("location"), "/v1/sessions/kept");
  ExpectSameAsGrpc(made);
  const v1::Session session = *client().GetSession("kept");
  EXPECT_EQ(session.labels().at("user"), "änna");
  EXPECT_EQ(session.time_to_live().seconds(), 3600);
  EXPECT_EQ(session.max_checkpoints(), 2);

  const HttpReply got = Call("GET", "/v1/sessions/kept");
  EXPECT_EQ(got.body, made.body);
  EXPECT_EQ(
      Refused(Call("POST", "/v1/sessions", R"({"id": "kept"})"), 409, "SESSION_EXISTS").at("type"),
      "conflict_error");

  ExpectSameAsGrpc(Call("PATCH", "/v1/sessions/kept",
                        R"({"labels": {"values": {"user": "ben"}}, "time_to_live": "0s"})"));
  const v1::Session changed = *client().GetSession("kept");
  EXPECT_EQ(changed.labels().at("user"), "ben");
  EXPECT_FALSE(changed.has_time_to_live());

  EXPECT_EQ(Ok(Call("DELETE", "/v1/sessions/kept")), json::object());
  for (const char* method : {"GET", "PATCH", "DELETE"}) {
    const json error = Refused(Call(method, "/v1/sessions/kept"), 404, "SESSION_NOT_FOUND");
    EXPECT_EQ(error.at("type"), "not_found_error");
    EXPECT_EQ(error.at("metadata").at("session_id"), "kept");
  }
  EXPECT_TRUE(absl::IsNotFound(client().GetSession("kept").status()));
}

TEST_F(RestTest, TheServerChoosesAnId) {
  const HttpReply made = Call("POST", "/v1/sessions");
  const std::string id = Ok(made, 201).value("id", "");
  EXPECT_THAT(id, testing::Not(testing::IsEmpty()));
  ExpectSameAsGrpc(Call("GET", "/v1/sessions/" + id));
  EXPECT_EQ(Call("HEAD", "/v1/sessions/" + id).Header("content-length"),
            std::to_string(made.body.size()));
}

TEST_F(RestTest, ErrorsNameWhatIsWrong) {
  Ok(Call("POST", "/v1/sessions", R"({"id": "errors"})"), 201);
  struct Case {
    const char* method;
    const char* target;
    const char* body;
    const char* param;
  };
  for (const Case& one : std::vector<Case>{
           {"POST", "/v1/sessions", R"({"id": "-"})", "id"},
           {"POST", "/v1/sessions", R"({"lables": {}})", "lables"},
           {"POST", "/v1/sessions", R"({"labels": {"": "x"}})", "labels"},
           {"POST", "/v1/sessions", R"({"time_to_live": "0.5s"})", "time_to_live"},
           {"POST", "/v1/sessions", R"({"max_checkpoints": 65})", "max_checkpoints"},
           {"POST", "/v1/sessions?id=x", "", "id"},
           {"GET", "/v1/sessions?page_size=1001", "", "page_size"},
           {"GET", "/v1/sessions?page_token=nonsense", "", "page_token"},
           {"GET", "/v1/sessions/-", "", "id"},
           {"GET", "/v1/sessions/errors?x=1", "", "x"},
           {"PATCH", "/v1/sessions/errors", R"({"id": "other"})", "id"},
           {"PATCH", "/v1/sessions/errors", R"({"pinned": "maybe"})", "pinned"},
           {"POST", "/v1/sessions/errors/rewind", "", "to"},
           {"POST", "/v1/sessions/errors/rewind", R"({"to": {"turns": -1}})", "to.turns"},
           {"POST", "/v1/sessions/errors/fork", R"({"new_id": "!"})", "new_id"},
           {"POST", "/v1/sessions/errors/fork", R"({"from": {"turn": 1}})", "from.turn"},
           {"GET", "/v1/sessions/-/checkpoints", "", "id"},
           {"GET", "/v1/sessions/errors/export?turns=x", "", "turns"},
           {"GET", "/v1/sessions/-/export", "", "id"},
           {"POST", "/v1/sessions/import?id=!", "x", "id"},
           {"POST", "/v1/sessions/import", "", "body"},
           {"GET", "/v1/model?x=1", "", "x"},
       }) {
    const json error = Refused(Call(one.method, one.target, one.body), 400, "INVALID_FIELD");
    EXPECT_EQ(error.value("param", ""), one.param) << one.method << " " << one.target;
    EXPECT_EQ(error.value("type", ""), "invalid_request_error");
  }
  Refused(Call("POST", "/v1/sessions", "{"), 400, "INVALID_JSON");
  Refused(Call("POST", "/v1/sessions/errors/fork", R"({"from": {"turns": 5}})"), 404,
          "CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(Call("PUT", "/v1/sessions/errors").Header("allow"), "GET, HEAD, PATCH, DELETE");
}

TEST_F(RestTest, AChangeThatOneHasNotSeenIsNotOverwritten) {
  const HttpReply made = Call("POST", "/v1/sessions", R"({"id": "guarded", "max_checkpoints": 4})");
  const std::string stale = made.Header("etag");
  Go("guarded", kPrompt, 3);
  Go("guarded", " and", 3);
  const std::string before = client().GetSession("guarded")->DebugString();
  const auto with = [](const std::string& tag) {
    return std::vector<std::pair<std::string, std::string>>{{"If-Match", tag}};
  };
  const std::string to = R"({"to": {"turns": 1}})";
  for (const auto& [method, path, body] :
       {std::tuple{"PATCH", "", std::string(R"({"pinned": true})")},
        std::tuple{"DELETE", "", std::string()}, std::tuple{"POST", "/rewind", to},
        std::tuple{"POST", "/fork", std::string()}}) {
    const json error =
        Refused(Call(method, std::string("/v1/sessions/guarded") + path, body, with(stale)), 412,
                "REVISION_MISMATCH");
    EXPECT_EQ(error.at("metadata").at("revision"), "2");
    EXPECT_EQ(client().GetSession("guarded")->DebugString(), before);
  }
  Refused(Call("PATCH", "/v1/sessions/guarded", R"({"expected_position": 1})"), 409,
          "POSITION_MISMATCH");
  const std::string fresh = Call("GET", "/v1/sessions/guarded").Header("etag");
  EXPECT_NE(fresh, stale);
  const HttpReply rewound = Call("POST", "/v1/sessions/guarded/rewind", to, with(fresh));
  EXPECT_EQ(Ok(rewound).at("turns"), "1");
  ExpectSameAsGrpc(rewound);
  Ok(Call("DELETE", "/v1/sessions/guarded", "", with("*")));
}

TEST_F(RestTest, ATurnKeepsOthersAway) {
  Go("busy", kPrompt, 3);
  const auto turn = client().StartGenerate(On("busy", Endless("")));
  v1::GenerateResponse event;
  while (turn->Next(&event) && !event.has_chunk()) {
  }
  const HttpReply refused = Call("DELETE", "/v1/sessions/busy");
  Refused(refused, 409, "SESSION_BUSY");
  EXPECT_THAT(refused.Header("retry-after"), testing::MatchesRegex("[0-9]+"));
  EXPECT_EQ(refused.Header("x-should-retry"), "");
  turn->Cancel();
  EXPECT_TRUE(Eventually([&] { return Call("DELETE", "/v1/sessions/busy").status == 200; }));
}

TEST_F(RestTest, SessionsBranchAndGoBack) {
  Ok(Call("POST", "/v1/sessions", R"({"id": "trunk", "max_checkpoints": 8})"), 201);
  Go("trunk", kPrompt, 5);
  const auto second = Go("trunk", " dog", 6);
  const auto third = Go("trunk", " ran", 7);
  const json checkpoints = Ok(Call("GET", "/v1/sessions/trunk/checkpoints")).at("checkpoints");
  const v1::ListCheckpointsResponse told = *client().ListCheckpoints("trunk");
  ASSERT_THAT(checkpoints, SizeIs(told.checkpoints_size()));
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const v1::CheckpointInfo& info = told.checkpoints(static_cast<int>(i));
    EXPECT_EQ(checkpoints[i].at("position"), std::to_string(info.position()));
    EXPECT_EQ(checkpoints[i].at("turns"), std::to_string(info.turns()));
  }

  const HttpReply forked =
      Call("POST", "/v1/sessions/trunk/fork",
           R"({"new_id": "branch", "from": {"turns": 1}, "labels": {"a": "b"}})");
  Ok(forked, 201);
  EXPECT_EQ(forked.Header("location"), "/v1/sessions/branch");
  ExpectSameAsGrpc(forked);
  EXPECT_EQ(forked.json().at("parent_id"), "trunk");
  EXPECT_EQ(Go("branch", " dog", 6), second);  // The same turn again, from the same place.

  EXPECT_EQ(Ok(Call("POST", "/v1/sessions/trunk/rewind", R"({"to": {"before_last_turn": true}})"))
                .at("turns"),
            "2");
  EXPECT_EQ(Go("trunk", " ran", 7), third);

  Ok(Call("PATCH", "/v1/sessions/branch", R"({"pinned": true})"));
  Refused(Call("DELETE", "/v1/sessions/branch"), 400, "SESSION_PINNED");
  Ok(Call("PATCH", "/v1/sessions/branch", R"({"pinned": false})"));
  Ok(Call("DELETE", "/v1/sessions/branch"));
}

TEST_F(RestTest, ManySessionsInPages) {
  std::vector<std::string> made;
  for (int i = 0; i < 130; ++i) {
    made.push_back("page." + std::to_string(1000 + i));
    Ok(Call("POST", "/v1/sessions",
            json{{"id", made.back()}, {"labels", {{"run/1", i % 2 == 0 ? "a b&c=ä" : "odd"}}}}
                .dump()),
       201);
  }
  const auto list = [&](const std::string& query) {
    std::vector<std::string> ids;
    std::string token;
    do {
      const json page = Ok(Call("GET", "/v1/sessions?page_size=40" + query +
                                           (token.empty() ? "" : "&page_token=" + token)));
      EXPECT_LE(page.at("sessions").size(), 40u);
      for (const json& session : page.at("sessions")) ids.push_back(session.at("id"));
      token = page.at("next_page_token");
    } while (!token.empty());
    return ids;
  };
  std::vector<std::string> all = list("");
  EXPECT_TRUE(std::ranges::is_sorted(all));
  std::erase_if(all, [](const std::string& id) { return !id.starts_with("page."); });
  EXPECT_EQ(all, made);
  EXPECT_THAT(list("&labels.run%2F1=a+b%26c%3D%C3%A4"), SizeIs(65));
  EXPECT_THAT(list("&labels.run/1=odd"), SizeIs(65));
  EXPECT_THAT(list("&labels.run/1=none"), SizeIs(0));
}

TEST_F(RestTest, IdsInPathsAreDecoded) {
  Ok(Call("POST", "/v1/sessions", R"({"id": "a:b.c_d-e"})"), 201);
  EXPECT_EQ(Ok(Call("GET", "/v1/sessions/a%3ab%2Ec_d-e")).at("id"), "a:b.c_d-e");
  EXPECT_EQ(Ok(Call("GET", "/v1/sessions/a:b.c_d-e")).at("id"), "a:b.c_d-e");
  EXPECT_EQ(Refused(Call("GET", "/v1/sessions/a%2Fb"), 400, "INVALID_FIELD").at("param"), "id");
  EXPECT_EQ(Call("GET", "/v1/sessions/a%zz").status, 400);
  EXPECT_EQ(Call("GET", "/v1/sessions/a%ff").status, 400);
  // A name that a route has, too.
  Ok(Call("POST", "/v1/sessions", R"({"id": "import"})"), 201);
  EXPECT_EQ(Ok(Call("GET", "/v1/sessions/import")).at("id"), "import");
  EXPECT_EQ(Ok(Call("POST", "/v1/sessions/import/fork"), 201).at("parent_id"), "import");
}

TEST_F(RestTest, TheModelIsGrpcs) {
  v1::Model model;
  const auto status =
      google::protobuf::util::JsonStringToMessage(Call("GET", "/v1/model").body, &model);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(model.DebugString(), client().GetModel()->DebugString());
}

TEST_F(RestTest, CallsAreCountedAsGrpcs) {
  const auto count = [&](const std::string& front, const std::string& outcome) {
    const auto samples = server().Metrics();
    const auto found = samples.find("fermata_requests_total{front=\"" + front +
                                    "\",method=\"ListCheckpoints\",outcome=\"" + outcome + "\"}");
    return found == samples.end() ? 0 : found->second;
  };
  Ok(Call("POST", "/v1/sessions", R"({"id": "counted"})"), 201);
  const double ok = count("http", "ok");
  const double missing = count("http", "session_not_found");
  const double grpc = count("grpc", "ok");
  Ok(Call("GET", "/v1/sessions/counted/checkpoints"));
  Call("GET", "/v1/sessions/nobody/checkpoints");
  ASSERT_TRUE(client().ListCheckpoints("counted").ok());
  EXPECT_EQ(count("http", "ok"), ok + 1);
  EXPECT_EQ(count("http", "session_not_found"), missing + 1);
  EXPECT_EQ(count("grpc", "ok"), grpc + 1);
}

std::string GrpcExport(client::Client& client, const std::string& id) {
  v1::ExportSessionRequest request;
  request.set_id(id);
  std::string snapshot;
  const absl::Status status = client.ExportSession(request, [&](std::string_view piece, int64_t) {
    snapshot += piece;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return snapshot;
}

TEST_F(RestTest, AnExportGoesOnOnAnotherServer) {
  Ok(Call("POST", "/v1/sessions", R"({"id": "traveller", "max_checkpoints": 4})"), 201);
  Go("traveller", kPrompt, 20);
  const HttpReply exported = Call("GET", "/v1/sessions/traveller/export");
  ASSERT_EQ(exported.status, 200);
  EXPECT_EQ(exported.body, GrpcExport(client(), "traveller"));
  EXPECT_EQ(exported.Header("snapshot-bytes"), std::to_string(exported.body.size()));
  char checksum[32];
  snprintf(
      checksum, sizeof(checksum), "xxh3=%016llx",
      static_cast<unsigned long long>(XXH3_64bits(exported.body.data(), exported.body.size())));
  EXPECT_EQ(exported.Header("snapshot-checksum"), checksum);
  EXPECT_EQ(exported.Header("content-disposition"), "attachment; filename=\"traveller.fermata\"");

  ServerProcess other;
  const HttpReply made =
      CallHttp(other.http_port(), {"POST", "/v1/sessions/import?id=arrived", exported.body, {}});
  EXPECT_EQ(Ok(made, 201).at("turns"), "1");
  EXPECT_EQ(made.Header("location"), "/v1/sessions/arrived");
  const auto there = other.Connect();
  const auto expected = Go("traveller", " dog", 15);
  EXPECT_EQ(RunOk(*there, On("arrived", Seeded(" dog", 15, 11))).ids, expected);

  // Here it is another session, or takes the place of the one that went on.
  Refused(Import("", exported.body), 409, "SESSION_EXISTS");
  Ok(Import("?id=traveller.2", exported.body), 201);
  EXPECT_EQ(Go("traveller.2", " dog", 15), expected);
  EXPECT_EQ(Ok(Import("?replace=true", exported.body), 201).at("turns"), "1");

  // As it was before.
  Go("traveller", " dog", 15);
  for (const char* query : {"?turns=1", "?before_last_turn=true"}) {
    const HttpReply earlier = Call("GET", std::string("/v1/sessions/traveller/export") + query);
    EXPECT_EQ(Ok(Import("?id=earlier&replace=true", earlier.body), 201).at("turns"), "1");
    EXPECT_EQ(Go("earlier", " dog", 15), expected);
  }
  Refused(Call("GET", "/v1/sessions/traveller/export?position=1"), 404, "CHECKPOINT_NOT_FOUND");
  Refused(Call("GET", "/v1/sessions/nobody/export"), 404, "SESSION_NOT_FOUND");
}

TEST_F(RestTest, WhatIsNoSnapshotOfThisModelIsRefused) {
  Go("good", kPrompt, 5);
  const std::string snapshot = GrpcExport(client(), "good");
  const std::string before = client().GetSession("good")->DebugString();
  const std::string query = "?id=good&replace=true";
  for (const size_t at : {size_t{0}, size_t{70}, snapshot.size() / 2, snapshot.size() - 1}) {
    std::string altered = snapshot;
    altered[at] ^= 4;
    const json error = Refused(Import(query, altered), 400, "SNAPSHOT_DAMAGED");
    EXPECT_NE(error.at("metadata").value("offset", ""), "") << at;
  }
  for (const size_t size : {size_t{1}, size_t{64}, snapshot.size() / 2, snapshot.size() - 1}) {
    Refused(Import(query, snapshot.substr(0, size)), 400, "SNAPSHOT_DAMAGED");
  }
  Refused(Import(query, snapshot + "x"), 400, "SNAPSHOT_DAMAGED");
  Refused(Import(query, snapshot + std::string(1'000'000, 'x')), 400, "SNAPSHOT_DAMAGED");
  EXPECT_EQ(client().GetSession("good")->DebugString(), before);

  // The same model with its weights held otherwise computes other numbers.
  ServerProcess other({"--weights=int8"});
  const HttpReply foreign =
      CallHttp(other.http_port(), {"POST", "/v1/sessions/import", snapshot, {}});
  const json error = Refused(foreign, 400, "SNAPSHOT_MODEL");
  EXPECT_NE(error.at("metadata").value("expected_model_fingerprint", ""), "");
  EXPECT_EQ(Ok(CallHttp(other.http_port(), {.target = "/v1/sessions"})).at("sessions"),
            json::array());
}

TEST_F(RestTest, AnImportComesInPiecesOrNotAtAll) {
  Go("pieces", kPrompt, 5);
  const std::string snapshot = GrpcExport(client(), "pieces");
  const std::string head =
      "POST /v1/sessions/import?id=pieces.2 HTTP/1.1\r\nHost: a\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  const auto chunk = [](const std::string& data) {
    char size[32];
    snprintf(size, sizeof(size), "%zx\r\n", data.size());
    return size + data + "\r\n";
  };
  // More clients that vanish than there are places for imports.
  for (int i = 0; i < 20; ++i) {
    HttpConnection gone(server().http_port());
    gone.Write(head + chunk(snapshot.substr(0, snapshot.size() / 2)));
    gone.Reset();
  }
  EXPECT_TRUE(absl::IsNotFound(client().GetSession("pieces.2").status()));
  const std::string text = head + chunk(snapshot.substr(0, 1)) + chunk(snapshot.substr(1, 70'000)) +
                           chunk(snapshot.substr(70'001)) + "0\r\n\r\n";
  EXPECT_TRUE(Eventually([&] {
    HttpConnection whole(server().http_port());
    whole.Write(text);
    const HttpReply reply = whole.Read();
    EXPECT_THAT(reply.status, testing::AnyOf(201, 429))
        << reply.body;  // All gone are not told yet.
    return reply.status == 201;
  }));
  EXPECT_EQ(Go("pieces.2", " dog", 5), Go("pieces", " dog", 5));
}

}  // namespace
}  // namespace fermata::e2e
