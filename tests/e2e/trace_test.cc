// W3C trace contexts, over both fronts, into the log.

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include "absl/time/time.h"
#include "fermata/v1/generation.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/http_client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";
constexpr char kPrompt[] = "Once upon a time, there was a little";

std::string Header(bool sampled) {
  return std::string("00-") + kTrace + "-" + kParent + (sampled ? "-01" : "-00");
}

// Runs one turn over gRPC that brings `traceparents`.
void GenerateOverGrpc(const ServerProcess& server, const v1::GenerateRequest& request,
                      const std::vector<std::string>& traceparents) {
  const auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  for (const std::string& traceparent : traceparents) {
    context.AddMetadata("traceparent", traceparent);
    context.AddMetadata("tracestate", "congo=t61rcWkgMzE");
  }
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse event;
  while (reader->Read(&event)) {
  }
  reader->Finish();
}

// A POST over HTTP that brings a traceparent.
HttpReply CompleteOverHttp(const ServerProcess& server, const json& body,
                           const std::string& traceparent) {
  return CallHttp(server.http_port(), {.method = "POST",
                                       .target = "/v1/completions",
                                       .body = body.dump(),
                                       .headers = {{"TraceParent", traceparent}}});
}

// The log of a server that has ended, by event.
std::map<std::string, std::vector<json>> EventsOf(ServerProcess& server) {
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  std::map<std::string, std::vector<json>> events;
  std::istringstream log(server.log());
  for (std::string line; std::getline(log, line);) {
    const json event = json::parse(line, nullptr, false);
    EXPECT_TRUE(event.is_object()) << line;
    if (event.is_object()) events[event.at("event")].push_back(event);
  }
  return events;
}

// The event of `events` that has `value` at `key`; null when there is none.
json With(const std::vector<json>& events, const std::string& key, const std::string& value) {
  for (const json& event : events) {
    if (event.value(key, "") == value) return event;
  }
  return {};
}

absl::Time StartOf(const json& span) {
  absl::Time start;
  std::string error;
  EXPECT_TRUE(
      absl::ParseTime(absl::RFC3339_full, span.at("start").get<std::string>(), &start, &error))
      << error;
  return start;
}

// The call's span, and under it those of its turn, which lie one after another and within it.
void ExpectSpansOfATurn(const std::vector<json>& spans, const std::string& front) {
  const json call = With(spans, "parent_span_id", kParent);
  ASSERT_TRUE(call.is_object());
  EXPECT_EQ(call.at("trace_id"), kTrace);
  EXPECT_EQ(call.at("front"), front);
  EXPECT_EQ(call.at("outcome"), "length");
  absl::Time end = StartOf(call);
  for (const char* name : {"queue", "prefill", "decode"}) {
    const json part = With(spans, "name", name);
    ASSERT_TRUE(part.is_object()) << name;
    EXPECT_EQ(part.at("trace_id"), kTrace);
    EXPECT_EQ(part.at("parent_span_id"), call.at("span_id"));
    EXPECT_NE(part.at("span_id"), call.at("span_id"));
    // Times are whole microseconds, durations have six digits.
    EXPECT_GE(StartOf(part), end - absl::Milliseconds(1)) << name;
    end = StartOf(part) + absl::Seconds(part.at("duration_seconds").get<double>());
  }
  EXPECT_LE(end, StartOf(call) + absl::Seconds(call.at("duration_seconds").get<double>()) +
                     absl::Milliseconds(1));
}

TEST(TraceTest, ATurnOverGrpcIsToldUnderItsCallersTrace) {
  ServerProcess server({"--log_format=json"});
  v1::GenerateRequest request = Greedy(kPrompt, 30);
  request.set_request_id("traced");
  GenerateOverGrpc(server, request, {Header(true)});
  // One that fails, whose caller does not ask for spans.
  request.mutable_sampling()->set_top_p(2);
  request.set_request_id("failed");
  GenerateOverGrpc(server, request, {Header(false)});
  auto events = EventsOf(server);

  const json turn = With(events["turn_completed"], "request_id", "traced");
  ASSERT_TRUE(turn.is_object());
  EXPECT_EQ(turn.at("trace_id"), kTrace);
  EXPECT_EQ(turn.at("parent_span_id"), kParent);
  const json failure = With(events["request_failed"], "request_id", "failed");
  ASSERT_TRUE(failure.is_object());
  EXPECT_EQ(failure.at("trace_id"), kTrace);
  EXPECT_EQ(failure.at("parent_span_id"), kParent);
  EXPECT_NE(failure.at("span_id"), turn.at("span_id"));

  EXPECT_THAT(events["span"], SizeIs(4));
  ExpectSpansOfATurn(events["span"], "grpc");
  EXPECT_EQ(With(events["span"], "name", "Generate").at("span_id"), turn.at("span_id"));
}

TEST(TraceTest, ATurnOverHttpIsToldUnderItsCallersTrace) {
  ServerProcess server({"--log_format=json"});
  const json body = {{"model", server.Connect()->GetModel()->name()},
                     {"prompt", kPrompt},
                     {"max_tokens", 30},
                     {"temperature", 0},
                     {"ignore_eos", true}};
  EXPECT_EQ(CompleteOverHttp(server, body, Header(true)).status, 200);
  json bad = body;
  bad["top_p"] = 2;
  EXPECT_EQ(CompleteOverHttp(server, bad, Header(false)).status, 400);
  auto events = EventsOf(server);

  ASSERT_THAT(events["turn_completed"], SizeIs(1));
  const json turn = events["turn_completed"].front();
  EXPECT_EQ(turn.at("trace_id"), kTrace);
  EXPECT_EQ(turn.at("parent_span_id"), kParent);
  ASSERT_THAT(events["request_failed"], SizeIs(1));
  EXPECT_EQ(events["request_failed"].front().at("trace_id"), kTrace);
  EXPECT_THAT(events["span"], SizeIs(4));
  ExpectSpansOfATurn(events["span"], "http");
}

// Nothing of a header that breaks the rules, or that comes twice, gets into the log.
TEST(TraceTest, ABrokenHeaderBeginsANewTrace) {
  ServerProcess server({"--log_format=json", "--log_spans=all"});
  const std::string evil = "00-4bf92f3577b34da6a3ce929d0e0e473\"-" + std::string(kParent) + "-01";
  GenerateOverGrpc(server, Greedy(kPrompt, 3), {evil});
  GenerateOverGrpc(server, Greedy(kPrompt, 3), {Header(true), Header(true)});
  GenerateOverGrpc(server, Greedy(kPrompt, 3), {});
  auto events = EventsOf(server);
  EXPECT_THAT(events["turn_completed"], SizeIs(3));
  std::set<std::string> traces;
  for (const json& turn : events["turn_completed"]) {
    EXPECT_THAT(turn.at("trace_id").get<std::string>(), MatchesRegex("[0-9a-f]{32}"));
    EXPECT_NE(turn.at("trace_id"), kTrace);
    EXPECT_FALSE(turn.contains("parent_span_id"));
    EXPECT_TRUE(traces.insert(turn.at("trace_id")).second);
  }
  // All spans are wanted here: of each call and its three parts.
  EXPECT_THAT(events["span"], SizeIs(3 * 4));
}

TEST(TraceTest, SpansCanBeTurnedOff) {
  ServerProcess server({"--log_format=json", "--log_spans=none"});
  GenerateOverGrpc(server, Greedy(kPrompt, 3), {Header(true)});
  auto events = EventsOf(server);
  EXPECT_EQ(events["turn_completed"].at(0).at("trace_id"), kTrace);
  EXPECT_THAT(events["span"], IsEmpty());
}

}  // namespace
}  // namespace fermata::e2e
