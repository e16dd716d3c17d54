// `fermata bench` against a real server: what its report says is what the server counted.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

constexpr char kTokensIn[] = "fermata_tokens_total{direction=\"in\"}";
constexpr char kEnded[] =
    "fermata_requests_total{front=\"grpc\",method=\"Generate\",outcome=\"length\"}";

std::vector<std::string> At(const ServerProcess& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(),
                   {"--server", server.address(), "--metrics-url",
                    "http://127.0.0.1:" + std::to_string(server.http_port()) + "/metrics"});
  return arguments;
}

class BenchTest : public SharedServerTest {
 protected:
  // Runs it to its end, and checks what holds for every run on a server that has nothing else to
  // do: all that was sent has ended one way or another, and the server counted the same.
  Json Run(const std::vector<std::string>& arguments) {
    const auto before = server().Metrics();
    std::vector<std::string> with_json = At(server(), arguments);
    with_json.push_back("--json");
    ChildProcess process("fermata", with_json);
    EXPECT_EQ(process.Wait(), 0) << process.errors();
    const Json report = Json::parse(process.output());
    const auto moved = [&](const char* name) {
      const auto old = before.find(name);
      return server().Metric(name) - (old == before.end() ? 0 : old->second);
    };
    const Json& requests = report.at("requests");
    EXPECT_EQ(requests.at("sent"), requests.at("completed").get<int64_t>() +
                                       requests.at("failed").get<int64_t>() +
                                       requests.at("cut").get<int64_t>());
    EXPECT_EQ(report.at("tokens").at("received"), moved(kTokensOut));
    const Json& counters = report.at("server").at("metrics").at("counters");
    if (requests.at("warmup") == 0) {
      EXPECT_EQ(requests.at("completed"), moved(kEnded));
      EXPECT_EQ(report.at("tokens").at("generated"), moved(kTokensOut));
      EXPECT_EQ(counters.at(kTokensOut), moved(kTokensOut));
    }
    EXPECT_EQ(report.at("latency").at("end_to_end").at("count"), requests.at("completed"));
    EXPECT_EQ(report.at("latency").at("time_to_first_token").at("count"), requests.at("completed"));
    // Every token but each request's first has a gap before it.
    EXPECT_EQ(report.at("latency").at("inter_token").at("count").get<int64_t>(),
              report.at("tokens").at("generated").get<int64_t>() -
                  requests.at("completed").get<int64_t>());
    return report;
  }
};

TEST_F(BenchTest, ClosedLoop) {
  const Json report = Run({"-c", "3", "--requests", "20", "--prompt-tokens", "4:8", "-n", "5"});
  EXPECT_EQ(report.at("ended_by"), "requests");
  EXPECT_EQ(report.at("requests").at("completed"), 20);
  EXPECT_EQ(report.at("tokens").at("generated"), 100);
  EXPECT_EQ(report.at("finish_reasons").at("LENGTH"), 20);
  EXPECT_EQ(report.at("client").at("peak_in_flight"), 3);
  EXPECT_EQ(report.at("server").at("model").at("fingerprint"), client().GetModel()->fingerprint());
  EXPECT_GT(
      report.at("server").at("metrics").at("gauges").at("process_resident_memory_bytes").at("peak"),
      1 << 20);
  EXPECT_THAT(report.at("failures"), IsEmpty());
}

TEST_F(BenchTest, TheSameSeedSendsTheSame) {
  const std::vector<std::string> arguments = {
      "-c", "2", "--requests", "6", "--prompt-tokens", "1:50", "-n", "1:9", "--seed", "4"};
  const Json first = Run(arguments);
  EXPECT_EQ(first.at("tokens"), Run(arguments).at("tokens"));
  std::vector<std::string> other = arguments;
  other.back() = "5";
  EXPECT_NE(first.at("tokens"), Run(other).at("tokens"));
}

TEST_F(BenchTest, OpenLoop) {
  const auto in = server().Metric(kTokensIn);
  const Json report =
      Run({"--rate", "20", "--arrivals", "constant", "--duration", "2s", "--prompt-tokens", "6",
           "-n", "4", "--slo-ttft", "1m", "--slo-itl", "1m"});
  EXPECT_EQ(report.at("ended_by"), "duration");
  EXPECT_EQ(report.at("seconds"), 2);
  // At 0, 0.05, … 1.95 s, whether the server keeps up or not.
  EXPECT_EQ(report.at("requests").at("sent"), 40);
  EXPECT_EQ(report.at("tokens").at("prompt"), 240);
  // The last token of each request is never consumed.
  EXPECT_EQ(server().Metric(kTokensIn) - in, 240);
  EXPECT_EQ(report.at("goodput").at("requests"), report.at("requests").at("completed"));
  EXPECT_EQ(report.at("goodput").at("share"), 1);
}

TEST_F(BenchTest, WarmupIsLeftOut) {
  const Json report = Run({"--rate", "20", "--arrivals", "constant", "--duration", "2s", "--warmup",
                           "1s", "--prompt-tokens", "2", "-n", "2"});
  EXPECT_EQ(report.at("requests").at("warmup"), 20);
  EXPECT_EQ(report.at("requests").at("sent"), 20);
  EXPECT_EQ(report.at("tokens").at("received"), 80);
  EXPECT_EQ(report.at("seconds"), 1);
}

TEST_F(BenchTest, Traces) {
  TempDir directory;
  WriteAll(directory / "azure.csv",
           "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,7,3\n"
           "2023-11-16 18:00:10.0,20,6\n2023-11-16 18:00:20.0,1,1\n");
  const Json azure = Run({"--trace", directory / "azure.csv", "--trace-speed", "20"});
  EXPECT_EQ(azure.at("ended_by"), "trace");
  EXPECT_EQ(azure.at("tokens").at("prompt"), 28);
  EXPECT_EQ(azure.at("tokens").at("generated"), 10);
  EXPECT_GE(azure.at("seconds"), 1);
  WriteAll(directory / "mooncake.jsonl",
           "{\"timestamp\": 0, \"input_length\": 520, \"output_length\": 2, \"hash_ids\": [1, 2]}\n"
           "{\"timestamp\": 100, \"input_length\": 5, \"output_length\": 4, \"hash_ids\": [3]}\n");
  const Json mooncake = Run({"--trace", directory / "mooncake.jsonl"});
  EXPECT_EQ(mooncake.at("tokens").at("prompt"), 525);
  EXPECT_EQ(mooncake.at("tokens").at("generated"), 6);
}

TEST_F(BenchTest, SessionsComeBack) {
  const Json report = Run({"-c", "3", "--sessions", "4", "--requests", "40", "--prompt-tokens", "2",
                           "-n", "2", "--keep-sessions"});
  // Every turn but the first of each of four sessions.
  EXPECT_EQ(report.at("sessions").at("resumed_turns"), 36);
  EXPECT_EQ(report.at("sessions").at("lost"), 0);
  int64_t positions = 0;
  std::vector<std::string> ids;
  const auto sessions = client().ListAllSessions();
  for (const v1::Session& session : *sessions) {
    positions += session.position() + 1;
    ids.push_back(session.id());
  }
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(positions, 40 * (2 + 2));
  for (const std::string& id : ids) EXPECT_TRUE(client().DeleteSession(id).ok());

  const Json short_lived = Run({"-c", "1", "--sessions", "1", "--session-turns", "5", "--requests",
                                "20", "--prompt-tokens", "2", "-n", "2"});
  EXPECT_EQ(short_lived.at("sessions").at("resumed_turns"), 16);
  // It has tidied up.
  EXPECT_THAT(*client().ListAllSessions(), IsEmpty());
}

TEST_F(BenchTest, SessionsAreOpenedBefore) {
  const double out = server().Metric(kTokensOut);
  ChildProcess process(
      "fermata", At(server(), {"-c", "3", "--sessions", "40", "--open-sessions", "--requests", "10",
                               "--prompt-tokens", "2", "-n", "2", "--keep-sessions", "--json"}));
  ASSERT_EQ(process.Wait(), 0) << process.errors();
  const Json report = Json::parse(process.output());
  // Each of the 40 with a token, which the report leaves out; then every turn finds its session.
  EXPECT_EQ(server().Metric(kTokensOut) - out, 40 + 10 * 2);
  EXPECT_EQ(report.at("tokens").at("received"), 20);
  EXPECT_EQ(report.at("sessions").at("resumed_turns"), 10);
  EXPECT_EQ(report.at("sessions").at("lost"), 0);
  const auto sessions = client().ListAllSessions();
  EXPECT_EQ(sessions->size(), 40u);
  for (const v1::Session& session : *sessions)
    EXPECT_TRUE(client().DeleteSession(session.id()).ok());
}

TEST_F(BenchTest, MoreClientsThanSessionsWait) {
  const Json report =
      Run({"-c", "3", "--sessions", "1", "--requests", "10", "--prompt-tokens", "2", "-n", "2"});
  EXPECT_EQ(report.at("client").at("peak_in_flight"), 1);
  EXPECT_EQ(report.at("sessions").at("resumed_turns"), 9);
  EXPECT_GT(report.at("sessions").at("waits"), 0);
}

TEST_F(BenchTest, PromptsOfAFile) {
  TempDir directory;
  WriteAll(directory / "prompts.jsonl", "{\"turns\": [\"Once upon\", \"a time\"]}\n");
  const Json report = Run({"--prompts", directory / "prompts.jsonl", "--sessions", "1",
                           "--session-turns", "2", "--requests", "2", "-n", "3"});
  const auto tokens = [&](const char* text) { return Tokenize(client(), text).size(); };
  EXPECT_EQ(report.at("tokens").at("prompt"), tokens("Once upon") + tokens("a time"));
}

TEST_F(BenchTest, WritesTableAndFile) {
  TempDir directory;
  ChildProcess process(
      "fermata", At(server(), {"--requests", "3", "-n", "2", "--prompt-tokens", "2", "--output",
                               directory / "r.json", "--commit", "c0ffee"}));
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.output(), HasSubstr("3 sent, 3 completed, 0 failed"));
  EXPECT_THAT(process.output(), HasSubstr("first token"));
  const Json report = Json::parse(ReadAll(directory / "r.json"));
  EXPECT_EQ(report.at("commit"), "c0ffee");
  EXPECT_EQ(report.at("requests").at("completed"), 3);
}

TEST_F(BenchTest, CtrlCEndsAndReports) {
  ChildProcess process("fermata",
                       At(server(), {"-c", "2", "-n", "100000", "--duration", "10m", "--json"}));
  ASSERT_TRUE(server().MetricBecomes(kRunning, 2));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  const Json report = Json::parse(process.output());
  EXPECT_EQ(report.at("ended_by"), "interrupt");
  EXPECT_EQ(report.at("requests").at("cut"), 2);
  EXPECT_EQ(report.at("requests").at("failed"), 0);
  EXPECT_TRUE(server().MetricBecomes(kRunning, 0));
}

TEST_F(BenchTest, RefusalsAreCountedByReason) {
  ChildProcess process("fermata",
                       At(server(), {"--requests", "2", "-n", "2", "--top-p", "2", "--json"}));
  EXPECT_EQ(process.Wait(), 1);
  const Json report = Json::parse(process.output());
  EXPECT_EQ(report.at("requests").at("failed"), 2);
  ASSERT_EQ(report.at("failures").size(), 1u);
  EXPECT_EQ(report.at("failures")[0].at("code"), "INVALID_ARGUMENT");
  EXPECT_EQ(report.at("failures")[0].at("reason"), "INVALID_FIELD");
  EXPECT_EQ(report.at("failures")[0].at("count"), 2);
}

TEST(BenchAloneTest, AServerKilledInTheMiddleIsFailures) {
  ServerProcess server;
  ChildProcess process("fermata", At(server, {"-c", "4", "--prompt-tokens", "2", "-n", "50",
                                              "--duration", "4s", "--json"}));
  ASSERT_TRUE(Eventually([&] { return server.Metric(kTokensOut) > 200; }));
  server.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), 0);
  const Json report = Json::parse(process.output());
  EXPECT_EQ(report.at("ended_by"), "duration");
  const Json& requests = report.at("requests");
  EXPECT_GT(requests.at("completed"), 0);
  // Those that ran, and more that found no server.
  EXPECT_GT(requests.at("failed"), 4);
  EXPECT_EQ(requests.at("sent"),
            requests.at("completed").get<int64_t>() + requests.at("failed").get<int64_t>());
  EXPECT_EQ(report.at("failures")[0].at("code"), "UNAVAILABLE");
}

TEST(BenchAloneTest, ItDoesNotWaitForAServerThatStaysAway) {
  ServerProcess server;
  ChildProcess process("fermata", At(server, {"-c", "2", "--prompt-tokens", "2", "-n", "50",
                                              "--duration", "10m", "--json"}));
  ASSERT_TRUE(Eventually([&] { return server.Metric(kTokensOut) > 200; }));
  server.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), 1);  // Within a minute, for Wait's sake.
  EXPECT_EQ(Json::parse(process.output()).at("ended_by"), "unreachable");
}

TEST(BenchAloneTest, AModelThatWasMadeIsServed) {
  TempDir directory;
  const std::string path = directory / "rwkv7-tiny";
  ChildProcess make("fermata", {"models", "make", path, "--layers", "2", "--hidden-size", "64",
                                "--vocab-size", "1000"});
  EXPECT_EQ(make.Wait(), 0) << make.errors();
  ChildProcess verify("fermata", {"models", "verify", path});
  EXPECT_EQ(verify.Wait(), 0) << verify.output();
  ServerProcess server({"--model_dir=" + path});
  EXPECT_EQ(server.Connect()->GetModel()->name(), "rwkv7-tiny");
  ChildProcess process("fermata", At(server, {"-c", "4", "--requests", "12", "--json"}));
  EXPECT_EQ(process.Wait(), 0) << process.errors();
  EXPECT_EQ(Json::parse(process.output()).at("tokens").at("generated"), 12 * 64);
  ChildProcess again("fermata", {"models", "make", path});
  EXPECT_EQ(again.Wait(), 1);
  EXPECT_THAT(again.errors(), HasSubstr("is not empty"));
}

TEST(BenchAloneTest, WhatItCanNotReadIsNamed) {
  TempDir directory;
  WriteAll(directory / "bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n");
  ChildProcess trace("fermata", {"bench", "--trace", directory / "bad.csv"});
  EXPECT_EQ(trace.Wait(), 1);
  EXPECT_THAT(trace.errors(), HasSubstr("bad.csv: line 2: "));
  ServerProcess server;
  std::vector<std::string> wrong = At(server, {"--requests", "1"});
  wrong.back() = "http://127.0.0.1:1/metrics";
  ChildProcess metrics("fermata", wrong);
  EXPECT_EQ(metrics.Wait(), 1);
  EXPECT_THAT(metrics.errors(), HasSubstr("http://127.0.0.1:1/metrics"));
}

}  // namespace
}  // namespace fermata::e2e
