// Limits, cancellation, slow readers, time, and shutting down. Each test has a server of its own.

#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include "client/error.h"
#include "fermata/v1/generation.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

// Reads events until `tokens` have come; the last token's number in the sequence.
int64_t ReadTokens(client::GenerateStream& stream, int tokens) {
  v1::GenerateResponse event;
  int64_t last = -1;
  while (tokens > 0 && stream.Next(&event)) {
    tokens -= event.chunk().token_ids_size();
    if (event.has_chunk()) last = event.chunk().position() + event.chunk().token_ids_size() - 1;
  }
  EXPECT_LE(tokens, 0) << stream.Finish();
  return last;
}

// The tokens of a session that was cut anywhere go on as if it had not been: turn by turn, the same
// seed gives the same tokens at the same positions.
void ExpectGoesOnAsIfUncut(client::Client& client, const std::string& session,
                           v1::GenerateRequest request) {
  const int64_t position = client.GetSession(session)->position();
  const auto prompt = static_cast<int64_t>(Tokenize(client, request.text()).size());
  constexpr int kMore = 5;
  request.mutable_sampling()->set_max_new_tokens(static_cast<int>(position + 1 - prompt) + kMore);
  std::vector<int32_t> uncut = RunOk(client, request).ids;
  request.clear_prompt();
  request.mutable_sampling()->set_max_new_tokens(kMore);
  const Turn more = RunOk(client, On(session, request));
  EXPECT_EQ(more.ids, std::vector<int32_t>(uncut.end() - kMore, uncut.end()));
}

TEST(PressureTest, CancellingFreesThePlaceAndKeepsWhatWasGenerated) {
  ServerProcess server({"--max_running=1"});
  const auto client = server.Connect();
  const auto endless = client->StartGenerate(On("cut", Endless(kPrompt)));
  const int64_t seen = ReadTokens(*endless, 10);
  const auto waiting = client->StartGenerate(Greedy(kPrompt, 5));
  ASSERT_TRUE(server.MetricBecomes(kQueued, 1));
  endless->Cancel();
  EXPECT_TRUE(absl::IsCancelled(endless->Finish()));
  EXPECT_THAT(Collect(*waiting).ids, SizeIs(5));  // There is one place only.
  EXPECT_TRUE(server.MetricBecomes(kRunning, 0));
  // All that was seen is in the session; the last token of a sequence is pending.
  EXPECT_GE(client->GetSession("cut")->position(), seen);
  EXPECT_EQ(client->GetSession("cut")->turns(), 1);
  ExpectGoesOnAsIfUncut(*client, "cut", Endless(kPrompt));
}

TEST(PressureTest, AClientThatVanishesIsACancellation) {
  if (!HasBinary("fermata")) GTEST_SKIP() << "this build has no fermata command";
  ServerProcess server({"--max_running=1"});
  const auto client = server.Connect();
  ChildProcess reader("fermata",
                      {"generate", kPrompt, "--server", server.address(), "--session", "orphan",
                       "--create", "-n", "1000000", "--seed", "1", "--ignore-eos"});
  ASSERT_TRUE(Eventually([&] { return reader.output().size() > 20; }));
  reader.Signal(SIGKILL);
  EXPECT_TRUE(server.MetricBecomes(kRunning, 0));
  ExpectGoesOnAsIfUncut(*client, "orphan", Endless(kPrompt));
}

TEST(PressureTest, CancellingWhileQueuedLeavesNoTrace) {
  ServerProcess server({"--max_running=1", "--max_queued=1"});
  const auto client = server.Connect();
  RunOk(*client, On("resting", Greedy(kPrompt, 5)));
  const std::string before = client->GetSession("resting")->DebugString();
  const auto endless = client->StartGenerate(Endless(kPrompt));
  ReadTokens(*endless, 1);
  for (const std::string session : {"resting", "new"}) {
    const auto queued = client->StartGenerate(On(session, Greedy(kPrompt, 5)));
    ASSERT_TRUE(server.MetricBecomes(kQueued, 1));
    queued->Cancel();
    EXPECT_TRUE(absl::IsCancelled(queued->Finish()));
    EXPECT_TRUE(server.MetricBecomes(kQueued, 0));
  }
  EXPECT_EQ(client->GetSession("resting")->DebugString(), before);
  EXPECT_TRUE(absl::IsNotFound(client->GetSession("new").status()));
}

TEST(PressureTest, AQueueThatIsFullSaysWhenToRetry) {
  ServerProcess server({"--max_running=1", "--max_queued=1"});
  const auto client = server.Connect();
  const auto running = client->StartGenerate(Endless(kPrompt));
  ReadTokens(*running, 1);
  const auto queued = client->StartGenerate(Greedy(kPrompt, 5));
  ASSERT_TRUE(server.MetricBecomes(kQueued, 1));
  const Turn refused = RunTurn(*client, On("refused", Greedy(kPrompt, 5)));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_EQ(Reason(refused.status), "QUEUE_FULL");
  EXPECT_TRUE(client::DetailsOf(refused.status).retry_after.has_value());
  EXPECT_TRUE(absl::IsNotFound(client->GetSession("refused").status()));
  v1::ScoreRequest score;
  score.set_text(kPrompt);
  EXPECT_EQ(Reason(client->Score(score).status()), "QUEUE_FULL");
  running->Cancel();
  EXPECT_TRUE(Collect(*queued).status.ok());
  EXPECT_TRUE(RunTurn(*client, Greedy(kPrompt, 5)).status.ok());
}

TEST(PressureTest, ABusySessionIsRefusedToOthers) {
  ServerProcess server;
  const auto client = server.Connect();
  const auto turn = client->StartGenerate(On("busy", Endless(kPrompt)));
  ReadTokens(*turn, 3);
  v1::UpdateSessionRequest update;
  update.set_id("busy");
  update.mutable_labels();
  for (const absl::Status& status :
       {RunTurn(*client, On("busy", Greedy(" And", 5))).status,
        client->UpdateSession(update).status(), client->DeleteSession("busy")}) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(Reason(status), "SESSION_BUSY");
    EXPECT_TRUE(client::DetailsOf(status).retry_after.has_value());
  }
  turn->Cancel();
  EXPECT_TRUE(Eventually([&] { return client->DeleteSession("busy").ok(); }));
}

TEST(PressureTest, DeadlineAndTimeLimitKeepWhatWasGenerated) {
  ServerProcess server;
  const auto client = server.Connect();
  const auto hurried = server.Connect({.deadline = absl::Milliseconds(300)});
  const Turn late = RunTurn(*hurried, On("deadline", Endless(kPrompt)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status)) << late.status;
  EXPECT_TRUE(server.MetricBecomes(kRunning, 0));
  ExpectGoesOnAsIfUncut(*client, "deadline", Endless(kPrompt));

  v1::GenerateRequest request = On("limit", Endless(kPrompt));
  request.mutable_time_limit()->set_nanos(300'000'000);
  const Turn limited = RunOk(*client, request);
  EXPECT_EQ(limited.complete.finish_reason(), v1::TIME_LIMIT);
  EXPECT_EQ(limited.text, Detokenize(*client, limited.ids));
  EXPECT_EQ(client->GetSession("limit")->pending_token(), limited.ids.back());
  ExpectGoesOnAsIfUncut(*client, "limit", Endless(kPrompt));
}

TEST(PressureTest, TheTimeLimitCountsWaiting) {
  ServerProcess server({"--max_running=1", "--default_time_limit=500ms"});
  const auto client = server.Connect();
  const auto first = client->StartGenerate(Endless(kPrompt));
  const auto second = client->StartGenerate(On("waited", Endless(kPrompt)));
  EXPECT_EQ(Collect(*first).complete.finish_reason(), v1::TIME_LIMIT);
  const Turn waited = Collect(*second);
  ASSERT_TRUE(waited.status.ok()) << waited.status;
  EXPECT_EQ(waited.complete.finish_reason(), v1::TIME_LIMIT);
}

// A reader that sleeps while tokens come: the turn rests once the buffers are full, and nothing is
// lost when the reader wakes. Log-probabilities make messages long, so that it does not take long.
TEST(PressureTest, ASlowReaderHoldsUpItsOwnTurnOnly) {
  ServerProcess server({"--stream_buffer_tokens=16"});
  const auto client = server.Connect();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // Keeps the connection's window small.
  const auto stub = v1::Generation::NewStub(
      grpc::CreateCustomChannel(server.address(), grpc::InsecureChannelCredentials(), arguments));
  constexpr int kTokens = 6000;
  v1::GenerateRequest request = On("slow", Greedy(kPrompt, kTokens));
  request.mutable_sampling()->set_logprobs(20);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);

  // Asleep until the server has stopped: no new token in twenty looks.
  double tokens = 0;
  int same = 0;
  ASSERT_TRUE(Eventually([&] {
    absl::SleepFor(absl::Milliseconds(20));
    const double now = server.Metric(kTokensOut);
    same = now == tokens && now > 0 ? same + 1 : 0;
    tokens = now;
    return same == 20;
  }));
  EXPECT_LT(tokens, kTokens);
  EXPECT_EQ(server.Metric(kRunning), 1);
  RunOk(*client, Greedy(kPrompt, 20));  // Others go on.

  std::string text;
  std::vector<int32_t> ids;
  v1::GenerateResponse event;
  int largest = 0;
  while (reader->Read(&event)) {
    largest = std::max(largest, event.chunk().token_ids_size());
    text += event.chunk().text();
    EXPECT_EQ(event.chunk().token_ids_size(), event.chunk().logprobs_size());
    ids.insert(ids.end(), event.chunk().token_ids().begin(), event.chunk().token_ids().end());
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_LE(largest, 16) << "more was buffered than may be";
  EXPECT_GT(largest, 1) << "tokens that waited come together";
  ASSERT_THAT(ids, SizeIs(kTokens));
  EXPECT_EQ(text, Detokenize(*client, ids));
  EXPECT_EQ(client->GetSession("slow")->pending_token(), ids.back());
}

TEST(PressureTest, FullMemoryDropsTheLeastRecentlyUsed) {
  const int64_t state_bytes = ServerProcess().Connect()->GetModel()->state_bytes();
  // Room for four, and less than one beside them. A turn sets aside room for the longest record there
  // may be, of some 30 kB: four of those must fit.
  const int64_t memory = 4 * state_bytes + state_bytes * 98 / 100;
  ServerProcess server({"--session_tiers=memory:" + std::to_string(memory)});
  const auto client = server.Connect();
  for (const std::string session : {"a", "b", "c", "d"}) {
    RunOk(*client, On(session, Greedy(kPrompt, 3)));
  }
  RunOk(*client, On("a", Greedy("", 3)));  // Then b is the one that rested longest.
  RunOk(*client, On("e", Greedy(kPrompt, 3)));
  for (const std::string session : {"a", "c", "d", "e"}) {
    EXPECT_TRUE(client->GetSession(session).ok()) << session;
  }
  v1::GenerateRequest request = On("b", Greedy("", 3));
  request.mutable_session()->set_create_if_missing(false);
  for (const absl::Status& status :
       {client->GetSession("b").status(), RunTurn(*client, request).status}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(Reason(status), "SESSION_EXPIRED");
  }
  EXPECT_EQ(server.Metric("fermata_session_evictions_total"), 1);
  EXPECT_LE(server.Metric("fermata_session_bytes{tier=\"memory\"}"), static_cast<double>(memory));

  // When all are in a turn, there is nothing to drop.
  std::vector<std::unique_ptr<client::GenerateStream>> turns;
  for (const std::string session : {"a", "c", "d", "e"}) {
    turns.push_back(client->StartGenerate(On(session, Endless(" Then"))));
    ReadTokens(*turns.back(), 1);
  }
  const Turn refused = RunTurn(*client, On("f", Greedy(kPrompt, 3)));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_EQ(Reason(refused.status), "SESSION_MEMORY_EXHAUSTED");
  EXPECT_TRUE(client::DetailsOf(refused.status).retry_after.has_value());
}

TEST(PressureTest, DrainingLetsRunningTurnsFinishAndRefusesNewOnes) {
  ServerProcess server({"--drain_grace=10m", "--max_running=2"});
  const auto client = server.Connect();
  const auto endless = client->StartGenerate(Endless(kPrompt));
  const auto finishing = client->StartGenerate(Greedy(kPrompt, 300));
  ReadTokens(*endless, 1);
  ReadTokens(*finishing, 1);
  const auto queued = client->StartGenerate(Greedy(kPrompt, 5));
  ASSERT_TRUE(server.MetricBecomes(kQueued, 1));
  server.Signal(SIGTERM);

  const absl::Status dropped = Collect(*queued).status;
  EXPECT_TRUE(absl::IsUnavailable(dropped)) << dropped;
  EXPECT_EQ(Reason(dropped), "DRAINING");
  EXPECT_THAT(std::string(client->CheckHealth().message()), HasSubstr("NOT_SERVING"));
  EXPECT_EQ(server.Get("/readyz").status, 503);
  EXPECT_EQ(server.Get("/healthz").status, 200);
  EXPECT_EQ(Reason(RunTurn(*client, Greedy(kPrompt, 5)).status), "DRAINING");
  v1::GenerateResponse event;
  while (finishing->Next(&event)) {
  }
  EXPECT_EQ(event.complete().finish_reason(), v1::LENGTH);
  EXPECT_TRUE(finishing->Finish().ok());

  EXPECT_TRUE(server.running());
  endless->Cancel();
  EXPECT_EQ(server.Wait(), 0) << server.log();
}

TEST(PressureTest, WhatOutlastsTheGraceEndsAsDrained) {
  ServerProcess server({"--drain_grace=300ms"});
  const auto client = server.Connect();
  const auto endless = client->StartGenerate(On("drained", Endless(kPrompt)));
  v1::GenerateResponse event;
  ReadTokens(*endless, 1);
  server.Signal(SIGTERM);
  while (endless->Next(&event)) {
  }
  EXPECT_TRUE(endless->Finish().ok());
  EXPECT_EQ(event.complete().finish_reason(), v1::DRAINED);
  EXPECT_EQ(event.complete().session().id(), "drained");
  EXPECT_EQ(
      event.complete().session().position(),
      event.complete().usage().prompt_tokens() + event.complete().usage().generated_tokens() - 1);
  EXPECT_EQ(server.Wait(), 0) << server.log();
  EXPECT_TRUE(absl::IsUnavailable(client->CheckHealth()));
}

TEST(PressureTest, IdleServersStopAtOnceOnEitherSignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess server;
    server.Signal(signal);
    EXPECT_EQ(server.Wait(), 0) << server.log();
  }
}

}  // namespace
}  // namespace fermata::e2e
