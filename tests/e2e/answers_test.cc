// A request that has an id is run once: sent again, or taken up after its stream was lost, it gives the
// same events.

#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

constexpr char kPrompt[] = "Once upon a time, there was a little";

v1::GenerateRequest WithId(const std::string& id, v1::GenerateRequest request) {
  request.set_request_id(id);
  return request;
}

v1::GenerateRequest Finishing(v1::GenerateRequest request) {
  request.set_on_disconnect(v1::ON_DISCONNECT_FINISH);
  return request;
}

v1::AttachRequest From(const std::string& id, int32_t index = 0) {
  v1::AttachRequest request;
  request.set_request_id(id);
  request.set_from_index(index);
  return request;
}

// Reads until `tokens` have come.
std::vector<int32_t> Read(client::GenerateStream& stream, size_t tokens) {
  std::vector<int32_t> ids;
  v1::GenerateResponse event;
  while (ids.size() < tokens && stream.Next(&event)) {
    ids.insert(ids.end(), event.chunk().token_ids().begin(), event.chunk().token_ids().end());
  }
  EXPECT_GE(ids.size(), tokens) << stream.Finish();
  return ids;
}

// Reads to the end, from wherever the stream begins.
struct Rest {
  absl::Status status;
  v1::Started started;
  std::vector<int32_t> ids;
  v1::Complete complete;
};
Rest ReadRest(client::GenerateStream& stream) {
  Rest rest;
  v1::GenerateResponse event;
  while (stream.Next(&event)) {
    if (event.has_started()) rest.started = event.started();
    if (event.has_complete()) rest.complete = event.complete();
    rest.ids.insert(rest.ids.end(), event.chunk().token_ids().begin(),
                    event.chunk().token_ids().end());
  }
  rest.status = stream.Finish();
  return rest;
}

class AnswersTest : public SharedServerTest {};

TEST_F(AnswersTest, TheSameRequestGetsTheSameAnswerAndNoSecondTurn) {
  v1::GenerateRequest request = WithId("twice", On("twice", Greedy(kPrompt, 20)));
  request.mutable_sampling()
      ->clear_temperature();  // The seed is drawn: a second turn would differ.
  const Turn first = RunOk(client(), request);
  request.mutable_time_limit()->set_seconds(33);
  const Turn second = RunOk(*server().Connect(), request);
  EXPECT_EQ(second.ids, first.ids);
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.started.DebugString(), first.started.DebugString());
  EXPECT_EQ(second.complete.DebugString(), first.complete.DebugString());
  EXPECT_EQ(client().GetSession("twice")->turns(), 1);
}

TEST_F(AnswersTest, AnotherRequestUnderTheIdIsRefused) {
  RunOk(client(), WithId("reused", Greedy(kPrompt, 2)));
  const Turn other = RunTurn(client(), WithId("reused", Greedy(kPrompt, 3)));
  EXPECT_TRUE(absl::IsAlreadyExists(other.status)) << other.status;
  EXPECT_EQ(Reason(other.status), "REQUEST_ID_REUSED");
  v1::GenerateRequest of_another = WithId("reused", Greedy(kPrompt, 3));
  of_another.set_tenant("ben");
  RunOk(client(), of_another);
}

TEST_F(AnswersTest, ARefusedRequestMayBeSentAgain) {
  const auto busy = client().StartGenerate(On("busy", Endless(kPrompt)));
  Read(*busy, 1);
  const v1::GenerateRequest request = WithId("again", On("busy", Greedy(" And", 3)));
  EXPECT_EQ(Reason(RunTurn(client(), request).status), "SESSION_BUSY");
  busy->Cancel();
  ASSERT_TRUE(Eventually([&] {
    const auto session = client().GetSession("busy");
    return session.ok() && RunTurn(client(), request).status.ok();
  }));
  EXPECT_EQ(client().GetSession("busy")->turns(), 2);
}

TEST_F(AnswersTest, AttachGoesOnFromAToken) {
  const Turn whole = RunOk(client(), WithId("attach", Greedy(kPrompt, 20)));
  for (const int from : {0, 1, 13, 20}) {
    const Rest rest = ReadRest(*client().StartAttach(From("attach", from)));
    EXPECT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(rest.ids, std::vector<int32_t>(whole.ids.begin() + from, whole.ids.end()));
    EXPECT_EQ(rest.started.request_id(), "attach");
    EXPECT_EQ(rest.complete.DebugString(), whole.complete.DebugString());
  }
  EXPECT_TRUE(absl::IsInvalidArgument(client().StartAttach(From("attach", 21))->Finish()));
  const absl::Status unknown = client().StartAttach(From("unheard-of"))->Finish();
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  EXPECT_EQ(Reason(unknown), "REQUEST_NOT_FOUND");
  v1::AttachRequest of_another = From("attach");
  of_another.set_tenant("ben");
  EXPECT_EQ(Reason(client().StartAttach(of_another)->Finish()), "REQUEST_NOT_FOUND");
}

TEST_F(AnswersTest, ATurnThatFinishesAloneIsTakenUp) {
  constexpr int kTokens = 1500;
  const Turn whole = RunOk(client(), Greedy(kPrompt, kTokens));
  const auto stream =
      client().StartGenerate(Finishing(WithId("alone", On("alone", Greedy(kPrompt, kTokens)))));
  std::vector<int32_t> ids = Read(*stream, 5);
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  const Rest rest =
      ReadRest(*client().StartAttach(From("alone", static_cast<int32_t>(ids.size()))));
  EXPECT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(rest.complete.finish_reason(), v1::LENGTH);
  ids.insert(ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(ids, whole.ids);
  EXPECT_EQ(client().GetSession("alone")->turns(), 1);
}

// The process that reads is killed: nobody says goodbye.
TEST_F(AnswersTest, AConnectionThatBreaksLosesNothing) {
  if (!HasBinary("fermata")) GTEST_SKIP() << "this build has no fermata command";
  constexpr int kTokens = 1500;
  const Turn whole = RunOk(client(), Greedy(kPrompt, kTokens));
  ChildProcess reader("fermata", {"generate", kPrompt, "--server", server().address(), "-n",
                                  std::to_string(kTokens), "-t", "0", "--ignore-eos",
                                  "--request-id", "broken", "--on-disconnect", "finish"});
  ASSERT_TRUE(Eventually([&] { return reader.output().size() > 20; }));
  reader.Signal(SIGKILL);
  ChildProcess again("fermata", {"attach", "broken", "--server", server().address()});
  EXPECT_EQ(again.Wait(), 0) << again.errors();
  EXPECT_EQ(again.output(), whole.text);
}

TEST_F(AnswersTest, ATurnThatIsCancelledWithItsReaderTellsWhatItGenerated) {
  const v1::GenerateRequest request = WithId("cut", On("cut", Endless(kPrompt)));
  const auto stream = client().StartGenerate(request);
  const std::vector<int32_t> seen = Read(*stream, 10);
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  // A reader that came before the server noticed would have the turn go on.
  ASSERT_TRUE(server().MetricBecomes(kRunning, 0));
  const Turn again = RunOk(client(), request);
  EXPECT_EQ(again.complete.finish_reason(), v1::CANCELLED);
  ASSERT_GE(again.ids.size(), seen.size());
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), again.ids.begin()));
  EXPECT_EQ(client().GetSession("cut")->turns(), 1);
  EXPECT_EQ(client().GetSession("cut")->pending_token(), again.ids.back());
}

TEST_F(AnswersTest, TheLaterReaderHasTheTurn) {
  const auto first = client().StartGenerate(WithId("taken", Endless(kPrompt)));
  const std::vector<int32_t> seen = Read(*first, 3);
  const auto second = server().Connect();
  const auto stream = second->StartAttach(From("taken"));
  const std::vector<int32_t> again = Read(*stream, 3);
  EXPECT_EQ(std::vector<int32_t>(again.begin(), again.begin() + 3),
            std::vector<int32_t>(seen.begin(), seen.begin() + 3));
  const absl::Status lost = first->Finish();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
  EXPECT_EQ(Reason(lost), "REQUEST_TAKEN_UP");
  Read(*stream, 50);  // It goes on.
  stream->Cancel();
}

TEST_F(AnswersTest, ManyWhoSendTheSameRunOneTurn) {
  const v1::GenerateRequest request =
      Finishing(WithId("storm", On("storm", Seeded(kPrompt, 200, 4))));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto connection = server().Connect();
      const Turn turn = RunTurn(*connection, request);
      EXPECT_TRUE(turn.status.ok() || Reason(turn.status) == "REQUEST_TAKEN_UP") << turn.status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(RunOk(client(), request).ids, RunOk(client(), Seeded(kPrompt, 200, 4)).ids);
  EXPECT_EQ(client().GetSession("storm")->turns(), 1);
}

TEST(RetentionTest, WithoutItTheTurnIsForgottenAtItsEnd) {
  ServerProcess server({"--answer_retention=0"});
  const auto client = server.Connect();
  const v1::GenerateRequest request = WithId("r", On("s", Greedy(kPrompt, 3)));
  RunOk(*client, request);
  EXPECT_EQ(Reason(client->StartAttach(From("r"))->Finish()), "REQUEST_NOT_FOUND");
  RunOk(*client, request);
  EXPECT_EQ(client->GetSession("s")->turns(), 2);
  EXPECT_EQ(server.Metric("fermata_kept_answers"), 0);
}

TEST(RetentionTest, MemoryIsBounded) {
  ServerProcess server({"--answer_retention_memory=64KiB"});
  const auto client = server.Connect();
  for (int i = 0; i < 20; ++i) {
    RunOk(*client, WithId("r" + std::to_string(i), Greedy(kPrompt, 60)));
    EXPECT_LE(server.Metric("fermata_kept_answer_bytes"), 64 << 10);
  }
  EXPECT_GT(server.Metric("fermata_kept_answers_dropped_total"), 0);
  EXPECT_EQ(Reason(client->StartAttach(From("r0"))->Finish()), "REQUEST_NOT_FOUND");
  EXPECT_TRUE(client->StartAttach(From("r19"))->Finish().ok());
  // One answer that is larger than all that memory reaches its reader nevertheless.
  EXPECT_EQ(RunOk(*client, WithId("long", Greedy(kPrompt, 2000))).ids.size(), 2000u);
}

}  // namespace
}  // namespace fermata::e2e
