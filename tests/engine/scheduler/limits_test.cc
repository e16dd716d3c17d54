// How a turn ends early, or does not begin: cancellation, time, queue, drain, bad requests.

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/scheduler/engine.h"
#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

constexpr int kEndless = 1 << 20;

std::string ReasonOf(const absl::Status& status) { return DetailsOf(status).reason; }

absl::Status Refusal(TestEngine& engine, TurnRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.engine().Submit(std::move(request), sink);
  EXPECT_FALSE(handle.ok());
  EXPECT_FALSE(sink->started());
  return handle.status();
}

TEST(EngineLimitsTest, CancelKeepsWhatWasGenerated) {
  TestEngine engine;
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Start(SessionTurn("s", "go", kEndless), sink);
  sink->WaitForTokens(10);
  handle->Cancel();
  sink->Wait();
  EXPECT_EQ(sink->result().reason, FinishReason::kCancelled);
  const auto tokens = sink->tokens();
  EXPECT_EQ(sink->result().session->position, 2 + static_cast<int64_t>(tokens.size()) - 1);

  // And the session goes on as if the turn had asked for just so many tokens.
  const auto more = engine.Run(SessionTurn("s", "", 10))->tokens();
  const auto whole = engine.Run(SeededTurn("go", static_cast<int>(tokens.size()) + 10))->tokens();
  EXPECT_EQ(std::vector<int32_t>(whole.end() - 10, whole.end()), more);
}

TEST(EngineLimitsTest, CancelWhileQueuedFreesThePlaceAndLeavesTheSession) {
  TestEngine engine({.max_running = 1, .max_queued = 1});
  auto running = std::make_shared<RecordingSink>();
  const auto first = engine.Start(SeededTurn("a", kEndless), running);
  running->WaitForTokens(1);
  auto queued = std::make_shared<RecordingSink>();
  const auto second = engine.Start(SessionTurn("s", "b", 5), queued);
  second->Cancel();
  queued->Wait();
  EXPECT_EQ(queued->result().reason, FinishReason::kCancelled);
  EXPECT_TRUE(queued->tokens().empty());
  EXPECT_EQ(ReasonOf(engine.sessions().Get("s").status()), "SESSION_NOT_FOUND");

  auto third = std::make_shared<RecordingSink>();
  engine.Start(SeededTurn("c", 5), third);
  first->Cancel();
  third->Wait();
  EXPECT_EQ(third->result().reason, FinishReason::kLength);
}

TEST(EngineLimitsTest, AFullQueueRefusesWithATimeToRetry) {
  TestEngine engine({.max_running = 1, .max_queued = 1});
  auto running = std::make_shared<RecordingSink>();
  const auto first = engine.Start(SeededTurn("a", kEndless), running);
  auto queued = std::make_shared<RecordingSink>();
  engine.Start(SeededTurn("b", 1), queued);
  const absl::Status refusal = Refusal(engine, SeededTurn("c", 1));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), "QUEUE_FULL");
  EXPECT_TRUE(DetailsOf(refusal).retry_after.has_value());
  running->WaitForTokens(1);
  EXPECT_EQ(engine.engine().load().running, 1);
  EXPECT_EQ(engine.engine().load().queued, 1);
  first->Cancel();
  queued->Wait();
}

TEST(EngineLimitsTest, TheTimeLimitEndsATurnAndKeepsItsTokens) {
  TestEngine engine;
  TurnRequest request = SessionTurn("s", "go", kEndless);
  request.time_limit = absl::Milliseconds(200);
  const auto sink = engine.Run(request);
  EXPECT_EQ(sink->result().reason, FinishReason::kTimeLimit);
  EXPECT_EQ(sink->result().session->position, 2 + sink->result().generated_tokens - 1);
}

TEST(EngineLimitsTest, ATimeLimitThatPassesInTheQueueLeavesTheSessionAsItWas) {
  TestEngine engine;
  engine.Run(SessionTurn("s", "start", 3));
  TurnRequest request = SessionTurn("s", "more", 10);
  request.time_limit = absl::ZeroDuration();
  const auto sink = engine.Run(request);
  EXPECT_EQ(sink->result().reason, FinishReason::kTimeLimit);
  EXPECT_TRUE(sink->started());
  EXPECT_EQ(sink->result().generated_tokens, 0);
  EXPECT_EQ(engine.sessions().Get("s")->position, 7);
  EXPECT_EQ(engine.sessions().Get("s")->turns, 1u);
  EXPECT_EQ(sink->result().session->position, 7);

  request = SessionTurn("new", "more", 10);
  request.time_limit = absl::ZeroDuration();
  EXPECT_FALSE(engine.Run(request)->result().session.has_value());
  EXPECT_EQ(ReasonOf(engine.sessions().Get("new").status()), "SESSION_NOT_FOUND");
}

TEST(EngineLimitsTest, OneTurnAtATimeOnASession) {
  TestEngine engine;
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Start(SessionTurn("s", "go", kEndless), sink);
  const absl::Status refusal = Refusal(engine, SessionTurn("s", "me too", 1));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(refusal), "SESSION_BUSY");
  handle->Cancel();
  sink->Wait();
}

TEST(EngineLimitsTest, ExpectedPositionGuardsTheTurn) {
  TestEngine engine;
  engine.Run(SessionTurn("s", "start", 3));
  TurnRequest request = SessionTurn("s", "", 3);
  request.session->expected_position = 6;
  const absl::Status refusal = Refusal(engine, request);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(DetailsOf(refusal).metadata["position"], "7");
  request.session->expected_position = 7;
  EXPECT_TRUE(engine.Run(request)->completed());
}

TEST(EngineLimitsTest, AFullReaderHoldsUpItsOwnTurnOnly) {
  TestEngine engine;
  const auto expected = engine.Run(SeededTurn("slow", 50))->tokens();
  auto slow = std::make_shared<RecordingSink>();
  slow->SetCapacity(5);
  engine.Start(SeededTurn("slow", 50), slow);
  slow->WaitForTokens(5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(engine.Run(SeededTurn("other", 30))->tokens().size(), 30u);
  EXPECT_EQ(slow->tokens().size(), 5u);
  slow->SetCapacity(SIZE_MAX);
  engine.engine().Wake();
  slow->Wait();
  EXPECT_EQ(slow->tokens(), expected);
}

TEST(EngineLimitsTest, ARestingTurnCanBeCancelled) {
  TestEngine engine;
  auto slow = std::make_shared<RecordingSink>();
  slow->SetCapacity(5);
  const auto handle = engine.Start(SeededTurn("slow", 50), slow);
  slow->WaitForTokens(5);
  handle->Cancel();
  slow->Wait();
  EXPECT_EQ(slow->result().reason, FinishReason::kCancelled);
  EXPECT_EQ(slow->result().generated_tokens, 5);
}

TEST(EngineLimitsTest, DrainLetsTurnsFinishAndRefusesNewOnes) {
  TestEngine engine;
  auto sink = std::make_shared<RecordingSink>();
  engine.Start(SeededTurn("go", 200), sink);
  sink->WaitForTokens(1);
  engine.engine().Drain(absl::InfiniteDuration());
  EXPECT_EQ(sink->result().reason, FinishReason::kLength);
  const absl::Status refusal = Refusal(engine, SeededTurn("late", 1));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refusal), "DRAINING");
}

TEST(EngineLimitsTest, DrainCommitsWhatDoesNotFinish) {
  TestEngine engine({.max_running = 1});
  auto running = std::make_shared<RecordingSink>();
  engine.Start(SessionTurn("s", "go", kEndless), running);
  running->WaitForTokens(1);
  auto queued = std::make_shared<RecordingSink>();
  engine.Start(SeededTurn("b", 1), queued);
  engine.engine().Drain(absl::Milliseconds(50));
  EXPECT_EQ(running->result().reason, FinishReason::kDrained);
  EXPECT_EQ(engine.sessions().Get("s")->position,
            2 + static_cast<int64_t>(running->tokens().size()) - 1);
  ASSERT_FALSE(queued->completed());
  EXPECT_EQ(ReasonOf(queued->failure()), "DRAINING");
}

TEST(EngineLimitsTest, BadRequestsNameTheField) {
  TestEngine engine;
  const auto field = [&](TurnRequest request) {
    return DetailsOf(Refusal(engine, std::move(request))).metadata["field"];
  };
  EXPECT_EQ(field(SeededTurn("", 1)), "prompt");
  TurnRequest request;
  request.prompt.token_ids = {1, 256};
  EXPECT_EQ(field(request), "token_ids[1]");
  request.prompt.token_ids = {-1};
  EXPECT_EQ(field(request), "token_ids[0]");
  request = SeededTurn("x", 1);
  request.sampling.top_p = 0;
  EXPECT_EQ(field(request), "sampling.top_p");

  // An empty prompt on an empty session is known to be bad only when the session is at hand.
  ASSERT_TRUE(engine.sessions().Create({.id = "empty"}).ok());
  const auto sink = engine.Run(SessionTurn("empty", "", 1));
  ASSERT_FALSE(sink->completed());
  EXPECT_EQ(DetailsOf(sink->failure()).metadata["field"], "prompt");
  EXPECT_TRUE(engine.sessions().Begin({.id = "empty"}).ok()) << "the session is free again";
}

TEST(EngineLimitsTest, AModelWhoseStateGrowsGeneratesButKeepsNoSessions) {
  TestEngine engine({}, /*softmax=*/true);
  EXPECT_EQ(engine.Run(SeededTurn("soft", 10))->tokens().size(), 10u);
  const absl::Status refusal = Refusal(engine, SessionTurn("s", "soft", 1));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refusal), "UNBOUNDED_STATE");
}

}  // namespace
}  // namespace fermata
