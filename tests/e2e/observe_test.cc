// What operators see: metrics, health over HTTP, flags, ports and logs.

#include <cstdio>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrompt[] = "Once upon a time, there was a little";

TEST(MetricsTest, GaugesAgreeWithTheSessions) {
  ServerProcess server;
  const auto client = server.Connect();
  const v1::Model model = *client->GetModel();
  const auto state_bytes = static_cast<double>(model.state_bytes());
  const auto per_token = static_cast<double>(model.kv_equivalent_bytes_per_token());
  EXPECT_EQ(server.Metric("fermata_state_bytes_per_session"), state_bytes);
  EXPECT_EQ(server.Metric("fermata_kv_equivalent_bytes_per_token"), per_token);
  // From break-even on, and not before, the cache is the larger one.
  EXPECT_GE(static_cast<double>(model.break_even_tokens()) * per_token, state_bytes);
  EXPECT_LE(static_cast<double>(model.break_even_tokens() - 1) * per_token, state_bytes);

  double positions = 0;
  for (int i = 0; i < 3; ++i) {
    const Turn turn = RunOk(*client, On("s" + std::to_string(i), Greedy(kPrompt, 10 * i + 1)));
    const v1::SessionAfter& session = turn.complete.session();
    positions += static_cast<double>(session.position());
    EXPECT_EQ(session.state_bytes(), model.state_bytes());
    EXPECT_EQ(static_cast<double>(session.kv_equivalent_bytes()),
              per_token * static_cast<double>(session.position()));
    EXPECT_EQ(client->GetSession(session.id())->kv_equivalent_bytes(),
              session.kv_equivalent_bytes());
  }
  EXPECT_EQ(server.Metric("fermata_sessions{tier=\"memory\"}"), 3);
  EXPECT_EQ(server.Metric("fermata_session_state_bytes"), 3 * state_bytes);
  EXPECT_EQ(server.Metric("fermata_session_kv_equivalent_bytes"), positions * per_token);
  EXPECT_GE(server.Metric("fermata_session_bytes{tier=\"memory\"}"), 3 * state_bytes);
  ASSERT_TRUE(client->DeleteSession("s1").ok());
  EXPECT_EQ(server.Metric("fermata_session_state_bytes"), 2 * state_bytes);
}

// By Prometheus' own parser and rules for names, types and units.
TEST(MetricsTest, PrometheusAcceptsThePage) {
  ServerProcess server;
  RunOk(*server.Connect(), On("s", Greedy(kPrompt, 10)));
  FILE* promtool = popen("promtool check metrics 2>&1", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string page = server.Get("/metrics").body;
  EXPECT_EQ(fwrite(page.data(), 1, page.size(), promtool), page.size());
  EXPECT_EQ(pclose(promtool), 0) << page;
}

TEST(MetricsTest, LimitsAreThoseOfTheFlags) {
  const ServerProcess server({"--max_running=3", "--max_queued=0", "--prefix_cache=7MiB"});
  EXPECT_EQ(server.Metric("fermata_running_requests_limit"), 3);
  EXPECT_EQ(server.Metric("fermata_queued_requests_limit"), 0);
  EXPECT_EQ(server.Metric("fermata_prefix_cache_limit_bytes"), 7 << 20);
}

TEST(MetricsTest, ConnectionsAndCallsOfHttpAreCounted) {
  const ServerProcess server;
  EXPECT_TRUE(server.MetricBecomes("fermata_http_connections", 1));  // The one that asks.
  {
    HttpConnection first(server.http_port());
    HttpConnection second(server.http_port());
    first.Call({.method = "POST",
                .target = "/v1/completions",
                .body = R"({"prompt": "Once", "max_tokens": 3, "ignore_eos": true})"});
    second.Call({.target = "/healthz"});
    EXPECT_TRUE(server.MetricBecomes("fermata_http_connections", 3));
  }
  EXPECT_TRUE(server.MetricBecomes("fermata_http_connections", 1));
  const std::string call = R"(front="http",method="CreateCompletion")";
  EXPECT_EQ(server.Metric("fermata_requests_total{" + call + ",outcome=\"length\"}"), 1);
  EXPECT_EQ(server.Metric("fermata_request_seconds_count{" + call + "}"), 1);
  EXPECT_EQ(server.Metric(R"(fermata_turns_total{finish_reason="length"})"), 1);
}

TEST(MetricsTest, CountersCount) {
  ServerProcess server;
  const auto client = server.Connect();
  const auto before = server.Metrics();
  const Turn turn = RunOk(*client, Greedy(kPrompt, 20));
  RunOk(*client, Greedy(kPrompt, 1));
  v1::GenerateRequest bad = Greedy(kPrompt, 1);
  bad.mutable_sampling()->set_top_p(2);
  RunTurn(*client, bad);
  const auto prompt = Tokenize(*client, kPrompt);
  v1::ScoreRequest score;
  score.set_text(kPrompt);
  ASSERT_TRUE(client->Score(score).ok());

  const auto moved = [&](const std::string& name) {
    const auto now = server.Metrics();
    const auto old = before.find(name);
    return now.at(name) - (old == before.end() ? 0 : old->second);
  };
  EXPECT_EQ(moved(kTokensOut), 21);
  EXPECT_EQ(moved("fermata_time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(moved("fermata_inter_token_seconds_count"), 19);
  EXPECT_EQ(moved("fermata_queue_seconds_count{priority=\"normal\"}"), 2);
  EXPECT_EQ(moved("fermata_scored_tokens_total"), static_cast<double>(prompt.size() - 1));
  // Of the scored text, too, all tokens but the last have to be consumed.
  EXPECT_GE(moved("fermata_tokens_total{direction=\"in\"}"),
            static_cast<double>(3 * prompt.size() - 1));
  double requests = 0;
  for (const auto& [name, value] : server.Metrics()) {
    if (name.starts_with("fermata_requests_total{front=\"grpc\",method=\"Generate\""))
      requests += value;
  }
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(server.Metric(kRunning), 0);
  EXPECT_EQ(server.Metric(kQueued), 0);
}

// The text format, line by line, as its specification has it: each sample belongs to a family that
// was announced with help and type; a histogram's buckets never fall, and the last is its count.
TEST(MetricsTest, TextIsWellFormed) {
  ServerProcess server;
  const auto client = server.Connect();
  RunOk(*client, On("a-session-id", Greedy(kPrompt, 20)));
  const HttpReply reply = server.Get("/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.Header("content-type"), HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(reply.body, Not(HasSubstr("a-session-id")));
  const std::string label = R"re([a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*")re";
  const std::regex sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)re" + label + "(?:," + label +
                          R"re()*\})? ([-+0-9.e]+|[+-]?Inf|NaN))re");
  std::map<std::string, std::string> types;
  std::set<std::string> helped, seen;
  std::istringstream lines(reply.body);
  std::string bucket_series;
  double bucket = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, kind, name, type;
    if (line.starts_with('#')) {
      words >> hash >> kind >> name >> type;
      const bool first = kind == "HELP" ? helped.insert(name).second
                                        : kind == "TYPE" && types.emplace(name, type).second;
      EXPECT_TRUE(first) << line;
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_TRUE(seen.insert(match[1].str() + match[2].str()).second) << "twice: " << line;
    std::string family = match[1];
    if (!types.contains(family)) {
      family = std::regex_replace(family, std::regex("_(bucket|sum|count)$"), "");
      ASSERT_EQ(types[family], "histogram") << line;
    }
    EXPECT_TRUE(helped.contains(family)) << line;
    EXPECT_EQ(types[family] == "counter", family.ends_with("_total")) << line;
    if (!match[1].str().ends_with("_bucket")) continue;
    const std::string series =
        std::regex_replace(line.substr(0, line.rfind(' ')), std::regex(R"(,?le="[^"]*")"), "");
    const double value = std::stod(match[3]);
    EXPECT_TRUE(series != bucket_series || value >= bucket) << line;
    bucket_series = series;
    bucket = value;
  }
  for (const char* name :
       {"fermata_build_info", "fermata_requests_total", "fermata_time_to_first_token_seconds",
        "fermata_inter_token_seconds", "fermata_request_seconds", "fermata_batch_size",
        "fermata_break_even_tokens", "fermata_denominator_clamps_total"}) {
    EXPECT_TRUE(types.contains(name)) << name;
  }
}

TEST(HttpTest, HealthAndReadiness) {
  ServerProcess server;
  EXPECT_EQ(server.Get("/healthz").status, 200);
  EXPECT_EQ(server.Get("/readyz").status, 200);
  EXPECT_EQ(server.Get("/nowhere").status, 404);
  EXPECT_TRUE(server.Connect()->CheckHealth().ok());
  EXPECT_TRUE(absl::IsNotFound(server.Connect()->CheckHealth("no.such.Service")));
}

TEST(FlagsTest, AWrongFlagIsNamed) {
  for (const auto& [flag, name] :
       std::map<std::string, std::string>{{"--no_such_flag=1", "no_such_flag"},
                                          {"--max_running=0", "max_running"},
                                          {"--max_running=many", "max_running"},
                                          {"--session_tiers=memory:lots", "session_tiers"},
                                          {"--grpc_address=nowhere", "grpc_address"},
                                          {"--http_address=127.0.0.1:70000", "http_address"},
                                          {"--drain_grace=-1s", "drain_grace"},
                                          {"--log_level=loud", "log_level"},
                                          {"--flagfile=/no/such/file", "flagfile"},
                                          {"stray", "stray"}}) {
    ChildProcess server("fermata-server", {flag});
    EXPECT_EQ(server.Wait(), 2) << flag;
    EXPECT_THAT(server.errors(), HasSubstr(name));
  }
}

TEST(FlagsTest, AFlagThatDoesNotFitTheModelIsNamed) {
  ChildProcess server("fermata-server", {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                         "--session_tiers=memory:1KiB"});
  const auto exit_code = server.Wait();
  EXPECT_NE(exit_code, std::nullopt);
  EXPECT_NE(exit_code, 0);
  EXPECT_THAT(server.errors(), HasSubstr("session_tiers"));
}

TEST(FlagsTest, HelpGivesDefaultsAndVersionTheVersion) {
  ChildProcess help("fermata-server", {"--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.output(), HasSubstr("--grpc_address=127.0.0.1:7411"));
  EXPECT_THAT(help.output(), HasSubstr("--session_tiers="));
  ChildProcess version("fermata-server", {"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.output(), HasSubstr("fermata-server "));
}

TEST(FlagsTest, FlagsComeFromAFileToo) {
  TempDir directory;
  WriteAll(directory / "flags", "# Few at once.\n--max_running=1\n\n--max_queued=0\n");
  ServerProcess server({"--flagfile=" + (directory / "flags").string()});
  const auto client = server.Connect();
  const auto endless = client->StartGenerate(Endless(kPrompt));
  v1::GenerateResponse event;
  ASSERT_TRUE(endless->Next(&event));
  EXPECT_EQ(Reason(RunTurn(*client, Greedy(kPrompt, 1)).status), "QUEUE_FULL");
}

TEST(PortsTest, APortInUseIsAClearError) {
  ServerProcess first;
  const std::string http = "127.0.0.1:" + std::to_string(first.http_port());
  for (const auto& [grpc_address, http_address, taken] :
       {std::tuple{first.address(), std::string("127.0.0.1:0"), first.address()},
        std::tuple{std::string("127.0.0.1:0"), http, http}}) {
    ChildProcess second("fermata-server",
                        {"--grpc_address=" + grpc_address, "--http_address=" + http_address});
    EXPECT_EQ(second.Wait(), 1);
    EXPECT_THAT(second.errors(), HasSubstr(taken));
    EXPECT_THAT(second.errors(), HasSubstr("in use"));
  }
  RunOk(*first.Connect(), Greedy(kPrompt, 3));
}

TEST(ModelTest, AMissingModelIsNamed) {
  ChildProcess server("fermata-server", {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                         "--model_dir=/no/such/model"});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.errors(), HasSubstr("/no/such/model"));
}

TEST(LogTest, TellsEventsButNoText) {
  ServerProcess server({"--log_format=json"});
  const auto client = server.Connect();
  v1::GenerateRequest request = On("logged", Greedy("A secret Zanzibar", 30));
  request.set_request_id("trace-17");
  const Turn turn = RunOk(*client, request);
  server.Signal(SIGTERM);
  ASSERT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("trace-17"));
  EXPECT_THAT(server.log(), Not(HasSubstr("Zanzibar")));
  EXPECT_THAT(server.log(), Not(HasSubstr(turn.text)));
}

}  // namespace
}  // namespace fermata::e2e
