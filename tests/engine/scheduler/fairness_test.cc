// Who gets how much of the engine. Counted in steps, not in time.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/scheduler/budget.h"
#include "engine/scheduler/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

constexpr int kEndless = 1 << 20;

// Notes how many steps had been done when the turn left the queue, and at each token.
class StepSink : public RecordingSink {
 public:
  explicit StepSink(const StepRecorder& recorder) : recorder_(recorder) {}

  void Started(TurnStarted started) override {
    started_at_ = recorder_.num_steps();
    RecordingSink::Started(std::move(started));
  }
  void Chunk(TurnChunk chunk) override {
    if (first_at_ < 0) first_at_ = recorder_.num_steps();
    last_at_ = recorder_.num_steps();
    RecordingSink::Chunk(std::move(chunk));
  }
  // After Wait:
  int64_t StepsToFirstToken() const { return first_at_ + 1 - started_at_; }
  int64_t StepsFromFirstToLast() const { return last_at_ - first_at_; }

 private:
  const StepRecorder& recorder_;
  std::atomic<int64_t> started_at_ = -1;
  std::atomic<int64_t> first_at_ = -1;
  std::atomic<int64_t> last_at_ = -1;
};

TEST(FairnessTest, StepsKeepToTheirBudget) {
  constexpr int64_t kLimit = 48;
  for (const absl::Duration target : {absl::InfiniteDuration(), absl::Nanoseconds(1)}) {
    TestEngine engine({.prefill_tokens_per_step = kLimit, .step_time_target = target});
    auto decoding = std::make_shared<RecordingSink>();
    const auto handle = engine.Start(SeededTurn("x", kEndless), decoding);
    decoding->WaitForTokens(1);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 10; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>());
      engine.Start(SeededTurn(std::string(1 + 60 * i, 'p'), 5), sinks.back());
    }
    for (const auto& sink : sinks) sink->Wait();
    handle->Cancel();
    decoding->Wait();

    int64_t read = 0;
    for (const StepStats& step : engine.recorder().steps()) {
      read += step.prompt_tokens;
      EXPECT_LE(step.prompt_tokens, step.prompt_budget);
      EXPECT_LE(step.prompt_budget, kLimit);
      if (step.prompt_budget == 0) continue;
      EXPECT_GT(step.prompt_tokens, 0) << "prompts always move";
      if (step.decode_tokens == 0 || target == absl::InfiniteDuration()) {
        EXPECT_EQ(step.prompt_budget, kLimit);
      } else {
        EXPECT_EQ(step.prompt_budget, kMinPromptTokens);
      }
    }
    EXPECT_EQ(read, 1 + 10 + 60 * 45);
  }
}

TEST(FairnessTest, AShortPromptPassesLongOnes) {
  TestEngine engine({.prefill_tokens_per_step = 32});
  std::vector<std::shared_ptr<RecordingSink>> longs;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int i = 0; i < 8; ++i) {
    longs.push_back(std::make_shared<RecordingSink>());
    handles.push_back(engine.Start(SeededTurn(std::string(20000, 'l'), 1), longs.back()));
  }
  engine.recorder().WaitForSteps(20);
  auto brief = std::make_shared<StepSink>(engine.recorder());
  engine.Start(SeededTurn("ten tokens", 1), brief);
  brief->Wait();
  // Of 32 tokens each of nine prompts gets at least three in every step.
  EXPECT_LE(brief->StepsToFirstToken(), 4);
  for (const auto& sink : longs) EXPECT_TRUE(sink->tokens().empty());
  for (const auto& handle : handles) handle->Cancel();
  for (const auto& sink : longs) sink->Wait();
}

TEST(FairnessTest, ALongPromptMovesUnderAStreamOfShortOnes) {
  TestEngine engine({.max_running = 8, .prefill_tokens_per_step = 32});
  std::atomic<bool> enough = false;
  std::atomic<int> done = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 7; ++client) {
    clients.emplace_back([&] {
      while (!enough) {
        engine.Run(SeededTurn(std::string(30, 's'), 1));
        ++done;
      }
    });
  }
  while (done < 20) std::this_thread::yield();
  auto patient = std::make_shared<StepSink>(engine.recorder());
  engine.Start(SeededTurn(std::string(320, 'l'), 1), patient);
  patient->Wait();
  enough = true;
  for (std::thread& client : clients) client.join();
  // A share is at least 32 / 8 tokens in every step.
  EXPECT_LE(patient->StepsToFirstToken(), 320 / 4);
}

TEST(FairnessTest, ASlowReaderCostsTheOthersNoStep) {
  TestEngine engine;
  auto slow = std::make_shared<RecordingSink>();
  slow->SetCapacity(3);
  const auto handle = engine.Start(SeededTurn("slow", kEndless), slow);
  slow->WaitForTokens(3);
  for (int i = 0; i < 3; ++i) {
    auto other = std::make_shared<StepSink>(engine.recorder());
    engine.Start(SeededTurn("other", 40), other);
    other->Wait();
    EXPECT_EQ(other->StepsToFirstToken(), 1);
    EXPECT_EQ(other->StepsFromFirstToLast(), 39);
  }
  EXPECT_EQ(slow->tokens().size(), 3u);
  handle->Cancel();
  slow->Wait();
}

// One place, which is taken while requests come; then they run one after the other.
class QueueOrderTest : public testing::Test {
 protected:
  // Notes its name when it leaves the queue.
  class NamedSink : public RecordingSink {
   public:
    NamedSink(std::string name, std::vector<std::string>* order)
        : name_(std::move(name)), order_(order) {}
    void Started(TurnStarted started) override {
      order_->push_back(name_);
      RecordingSink::Started(std::move(started));
    }

   private:
    const std::string name_;
    std::vector<std::string>* order_;
  };

  QueueOrderTest() : engine_({.max_running = 1}) {
    blocker_ = engine_.Start(SeededTurn("b", kEndless), blocking_);
    blocking_->WaitForTokens(1);
  }

  void Add(const std::string& name, Claim claim) {
    TurnRequest request = SeededTurn("prompt", 1);
    request.claim = std::move(claim);
    sinks_.push_back(std::make_shared<NamedSink>(name, &order_));
    engine_.Start(std::move(request), sinks_.back());
  }

  std::vector<std::string> Order() {
    // What comes last is tokenized last: when its end is heard of, all others are in the queue.
    auto last = std::make_shared<RecordingSink>();
    engine_.Start(SeededTurn("last", 1), last)->Cancel();
    last->Wait();
    blocker_->Cancel();
    for (const auto& sink : sinks_) sink->Wait();
    return order_;
  }

 private:
  TestEngine engine_;
  std::shared_ptr<RecordingSink> blocking_ = std::make_shared<RecordingSink>();
  std::shared_ptr<RequestHandle> blocker_;
  std::vector<std::string> order_;  // The engine thread's until all have ended.
  std::vector<std::shared_ptr<RecordingSink>> sinks_;
};

TEST_F(QueueOrderTest, ByPriorityThenArrival) {
  Add("low", {.priority = -10});
  Add("first", {});
  Add("high", {.priority = 10});
  Add("second", {});
  EXPECT_THAT(Order(), ElementsAre("high", "first", "second", "low"));
}

TEST_F(QueueOrderTest, TenantsTakeTurns) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) Add(name, {.tenant = "a"});
  for (const char* name : {"b1", "b2"}) Add(name, {.tenant = "b"});
  EXPECT_THAT(Order(), ElementsAre("a1", "b1", "a2", "b2", "a3", "a4"));
}

TEST(FairnessTest, ATenantsQueueIsLimited) {
  TestEngine engine({.max_running = 1, .max_queued = 10, .max_queued_per_tenant = 2});
  const auto request = [](std::string tenant) {
    TurnRequest turn = SeededTurn("x", kEndless);
    turn.claim.tenant = std::move(tenant);
    return turn;
  };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  const auto start = [&](std::string tenant) {
    sinks.push_back(std::make_shared<RecordingSink>());
    handles.push_back(engine.Start(request(std::move(tenant)), sinks.back()));
  };
  start("a");
  sinks.front()->WaitForTokens(1);
  start("a");
  start("a");
  const auto refused = engine.engine().Submit(request("a"), std::make_shared<RecordingSink>());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused.status()).reason, "TENANT_QUEUE_FULL");
  EXPECT_TRUE(DetailsOf(refused.status()).retry_after.has_value());
  start("b");
  // One that ends, queued or running, leaves its place to another.
  handles[2]->Cancel();
  sinks[2]->Wait();
  start("a");
  for (const int ended : {0, 3}) {
    handles[ended]->Cancel();
    sinks[ended]->Wait();
  }
  sinks[1]->WaitForTokens(1);
  start("a");
  for (const auto& handle : handles) handle->Cancel();
  for (const auto& sink : sinks) sink->Wait();
}

TEST(FairnessTest, BadClaimsNameTheField) {
  TestEngine engine;
  const auto field = [&](Claim claim) -> std::string {
    TurnRequest turn = SeededTurn("x", 1);
    turn.claim = claim;
    auto sink = std::make_shared<RecordingSink>();
    const auto handle = engine.engine().Submit(turn, sink);
    ScoreRequest score;
    score.claim = claim;
    score.input.text = "x";
    const auto scored = engine.engine().Score(score, [](absl::StatusOr<ScoreResult>) {});
    EXPECT_EQ(handle.ok(), scored.ok());
    if (handle.ok()) sink->Wait();
    return DetailsOf(handle.status()).metadata["field"];
  };
  EXPECT_EQ(field({.priority = 10, .tenant = std::string(64, '~')}), "");
  EXPECT_EQ(field({.priority = -10, .tenant = " "}), "");
  EXPECT_EQ(field({.priority = 11}), "priority");
  EXPECT_EQ(field({.priority = -11}), "priority");
  EXPECT_EQ(field({.tenant = std::string(65, 'a')}), "tenant");
  EXPECT_EQ(field({.tenant = "caf\xC3\xA9"}), "tenant");
  EXPECT_EQ(field({.tenant = std::string("a\0", 2)}), "tenant");
}

// A hard limit of less than a chunk would never let a prompt move in chunks.
TEST(FairnessTest, ChunkwisePromptsMoveByAChunkAtLeast) {
  TestEngine engine({.prefill_tokens_per_step = 5, .prefill_form = Form::kChunkwise});
  EXPECT_EQ(engine.Run(SeededTurn(std::string(200, 'c'), 3))->tokens().size(), 3u);
}

}  // namespace
}  // namespace fermata
