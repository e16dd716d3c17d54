// What a turn computes: tokens, text, positions, sessions.

#include "engine/scheduler/engine.h"

#include <cmath>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/cpus.h"
#include "engine/base/error.h"
#include "engine/tokenizer/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<int32_t> Bytes(const std::string& text) {
  return std::vector<int32_t>(reinterpret_cast<const uint8_t*>(text.data()),
                              reinterpret_cast<const uint8_t*>(text.data()) + text.size());
}

std::vector<int32_t> Concat(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EngineTest, StreamsTokensAndCompletes) {
  TestEngine engine;
  const auto sink = engine.Run(SeededTurn("hello", 20));
  ASSERT_TRUE(sink->completed());
  EXPECT_EQ(sink->start().session_id, "");
  EXPECT_EQ(sink->start().position, 0);
  EXPECT_EQ(sink->tokens().size(), 20u);
  EXPECT_EQ(sink->result().reason, FinishReason::kLength);
  EXPECT_EQ(sink->result().prompt_tokens, 5);
  EXPECT_EQ(sink->result().generated_tokens, 20);
  EXPECT_EQ(sink->result().seed, 1u);
  EXPECT_FALSE(sink->result().session.has_value());
  EXPECT_EQ(sink->text(), engine.tokenizer().Decode(sink->tokens(), false));
}

// Notes the CPUs of the thread that brings tokens: the engine's.
class CpuSink : public RecordingSink {
 public:
  void Chunk(TurnChunk chunk) override {
    cpus = AllowedCpus();
    RecordingSink::Chunk(std::move(chunk));
  }
  std::vector<int> cpus;
};

TEST(EngineTest, ComputesOnItsCpusAlone) {
  const std::vector<int> before = AllowedCpus();
  const auto sink = std::make_shared<CpuSink>();
  SetComputeCpus({before.back()});
  {
    TestEngine engine;
    engine.Start(SeededTurn("hello", 3), sink);
    sink->Wait();
  }
  SetComputeCpus({});
  EXPECT_EQ(sink->cpus, std::vector<int>{before.back()});
  EXPECT_EQ(AllowedCpus(), before);
}

TEST(EngineTest, GreedyTokensAreTheModelsArgmax) {
  TestEngine engine;
  TurnRequest request = SeededTurn("abc", 12);
  request.sampling.temperature = 0;
  const auto sink = engine.Run(request);

  // The same by hand: token by token on the model itself.
  SequenceState state = engine.model().NewState();
  Model::Workspace workspace;
  std::vector<int32_t> sequence = Bytes("abc");
  for (size_t i = 0; i < 3 + 12 - 1; ++i) {
    const SequenceStep step{.tokens = std::span(sequence).subspan(i, 1), .state = &state};
    const auto logits = engine.model().Forward({&step, 1}, Form::kRecurrent, workspace);
    if (i + 1 < sequence.size()) continue;
    sequence.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_THAT(Concat(Bytes("abc"), sink->tokens()), ElementsAreArray(sequence));
}

TEST(EngineTest, SameSeedSameTokensOtherSeedOtherTokens) {
  TestEngine engine;
  const auto first = engine.Run(SeededTurn("seed", 40, 5))->tokens();
  EXPECT_EQ(engine.Run(SeededTurn("seed", 40, 5))->tokens(), first);
  EXPECT_NE(engine.Run(SeededTurn("seed", 40, 6))->tokens(), first);
}

TEST(EngineTest, TokensDoNotDependOnHowThePromptIsCut) {
  const std::string prompt(300, 'x');
  std::vector<std::vector<int32_t>> tokens;
  for (const int budget : {1, 7, 64, 256}) {
    TestEngine engine({.prefill_tokens_per_step = budget});
    tokens.push_back(engine.Run(SeededTurn(prompt + "yz", 30))->tokens());
  }
  for (const auto& other : tokens) EXPECT_EQ(other, tokens.front());
}

TEST(EngineTest, ChunkwisePrefillDoesNotDependOnTheBudget) {
  const std::string prompt(300, 'x');
  std::vector<std::vector<int32_t>> tokens;
  for (const int budget : {64, 100, 256}) {
    TestEngine engine({.prefill_tokens_per_step = budget, .prefill_form = Form::kChunkwise});
    tokens.push_back(engine.Run(SeededTurn(prompt + "yz", 30))->tokens());
  }
  for (const auto& other : tokens) EXPECT_EQ(other, tokens.front());
}

TEST(EngineTest, TokensDoNotDependOnNeighbours) {
  TestEngine engine({.prefill_tokens_per_step = 16});
  const auto alone = engine.Run(SeededTurn("alone in the dark", 60, 9))->tokens();

  std::vector<std::shared_ptr<RecordingSink>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_shared<RecordingSink>());
    engine.Start(SeededTurn(std::string(1 + 13 * i, static_cast<char>('a' + i)), 50, i),
                 others.back());
  }
  const auto together = engine.Run(SeededTurn("alone in the dark", 60, 9));
  EXPECT_EQ(together->tokens(), alone);
  for (const auto& other : others) other->Wait();
}

TEST(EngineTest, AFreshTurnSeesNothingOfTheOneBeforeIt) {
  TestEngine fresh({.max_running = 1});
  const auto expected = fresh.Run(SeededTurn("b", 30))->tokens();
  TestEngine used({.max_running = 1});
  used.Run(SeededTurn(std::string(200, 'q'), 50, 3));
  EXPECT_EQ(used.Run(SeededTurn("b", 30))->tokens(), expected);
}

TEST(EngineTest, ASessionGoesOnWhereItStopped) {
  TestEngine engine;
  const auto first = engine.Run(SessionTurn("s", "once", 10));
  ASSERT_TRUE(first->result().session.has_value());
  // "once" and ten tokens, of which the last is pending.
  EXPECT_EQ(first->result().session->position, 4 + 10 - 1);
  EXPECT_EQ(first->result().session->pending_token, first->tokens().back());

  const auto second = engine.Run(SessionTurn("s", "", 10));
  EXPECT_EQ(second->start().position, 13);
  EXPECT_EQ(second->result().session->position, 23);
  EXPECT_EQ(second->result().session->turns, 2u);

  const auto whole = engine.Run(SeededTurn("once", 20));
  EXPECT_EQ(Concat(first->tokens(), second->tokens()), whole->tokens());
}

// Promise 3: the same tokens, whether a sequence is one turn or many, greedy or drawn, with
// penalties that look back over the turns.
TEST(EngineTest, TurnsEqualOneLongTurn) {
  for (const double temperature : {0.0, 1.0}) {
    TestEngine engine;
    const auto turn = [&](std::string id, std::string text, int n) {
      TurnRequest request = SessionTurn(std::move(id), std::move(text), n, 77);
      request.sampling.temperature = temperature;
      request.sampling.repetition_penalty = 1.2;
      request.sampling.frequency_penalty = 0.1;
      return request;
    };
    std::vector<int32_t> sequence;
    for (int i = 0; i < 6; ++i) {
      const std::string text = "turn " + std::to_string(i);
      sequence = Concat(std::move(sequence), Bytes(text));
      sequence = Concat(std::move(sequence), engine.Run(turn("many", text, 5 + i))->tokens());
    }
    const auto last = engine.Run(turn("many", "end", 30));

    TurnRequest request = turn("one", "", 30);
    request.prompt.token_ids = Concat(sequence, Bytes("end"));
    const auto whole = engine.Run(request);
    EXPECT_EQ(whole->tokens(), last->tokens());
    EXPECT_EQ(whole->result().session->position, last->result().session->position);

    // Not only the tokens: the states are the same to the bit.
    std::vector<std::vector<std::byte>> states;
    for (const char* id : {"many", "one"}) {
      auto lease = engine.sessions().Begin({.id = id});
      ASSERT_TRUE(lease.ok()) << lease.status();
      states.emplace_back(engine.model().info().state_bytes);
      ASSERT_TRUE(lease->ReadState(states.back()).ok());
    }
    EXPECT_EQ(states[0], states[1]);
  }
}

TEST(EngineTest, NothingToGenerateConsumesAllButTheLastToken) {
  TestEngine engine;
  const auto fed = engine.Run(SessionTurn("s", "feed me", 0));
  EXPECT_EQ(fed->result().reason, FinishReason::kLength);
  EXPECT_TRUE(fed->tokens().empty());
  EXPECT_EQ(fed->result().session->position, 6);
  EXPECT_EQ(fed->result().session->pending_token, 'e');
  const auto gone_on = engine.Run(SessionTurn("s", "", 15));
  EXPECT_EQ(gone_on->tokens(), engine.Run(SeededTurn("feed me", 15))->tokens());

  const auto one = engine.Run(SessionTurn("one", "x", 0));
  EXPECT_EQ(one->result().session->position, 0);
  EXPECT_EQ(one->result().session->pending_token, 'x');
  EXPECT_EQ(engine.Run(SessionTurn("one", "", 15))->tokens(),
            engine.Run(SeededTurn("x", 15))->tokens());
}

TEST(EngineTest, StopStringEndsTheTextBeforeIt) {
  TestEngine engine;
  const auto free = engine.Run(SeededTurn("stop", 60));
  // ASCII letters that the model wrote one after the other, as two tokens.
  const std::string text = free->text();
  size_t at = 5;
  while (at + 1 < text.size() && !(isalpha(text[at]) && isalpha(text[at + 1]))) ++at;
  if (at + 1 >= text.size()) at = text.find_first_not_of("\xEF\xBF\xBD", 5);
  const std::string stop = text.substr(at, 2);
  const size_t first = text.find(stop);

  TurnRequest request = SeededTurn("stop", 60);
  request.sampling.stop = {"never in there", stop};
  const auto stopped = engine.Run(request);
  EXPECT_EQ(stopped->result().reason, FinishReason::kStop);
  EXPECT_EQ(stopped->result().matched_stop, stop);
  EXPECT_EQ(stopped->text(), text.substr(0, first));
  EXPECT_THAT(stopped->text(), Not(HasSubstr(stop)));
}

TEST(EngineTest, StopTokenEndsTheTurnAndStaysPending) {
  TestEngine engine;
  const auto free = engine.Run(SeededTurn("stop", 20));
  const int32_t stop = free->tokens()[7];
  size_t first = 0;
  while (free->tokens()[first] != stop) ++first;

  TurnRequest request = SessionTurn("s", "stop", 20);
  request.sampling.stop_token_ids = {stop};
  const auto stopped = engine.Run(request);
  EXPECT_EQ(stopped->result().reason, FinishReason::kStopToken);
  EXPECT_EQ(stopped->tokens().size(), first + 1);
  EXPECT_EQ(stopped->result().session->pending_token, stop);
  auto kept = free->tokens();
  kept.resize(first);
  EXPECT_EQ(stopped->text(), engine.tokenizer().Decode(kept, false));
}

absl::StatusOr<ScoreResult> Scored(TestEngine& engine, const ScoreRequest& request) {
  std::promise<absl::StatusOr<ScoreResult>> promise;
  const auto handle = engine.engine().Score(
      request, [&](absl::StatusOr<ScoreResult> result) { promise.set_value(std::move(result)); });
  if (!handle.ok()) return handle.status();
  return promise.get_future().get();
}

TEST(EngineTest, ScoreIsTheLogSoftmaxOfTheModel) {
  TestEngine engine({.prefill_tokens_per_step = 5});
  ScoreRequest request;
  request.context.text = "con";
  request.input.text = "text to score";
  request.top_logprobs = 2;
  const auto result = Scored(engine, request);
  ASSERT_TRUE(result.ok()) << result.status();

  const std::vector<int32_t> tokens = Bytes("context to score");
  SequenceState state = engine.model().NewState();
  Model::Workspace workspace;
  const SequenceStep step{.tokens = tokens, .state = &state, .logits = SequenceStep::Logits::kAll};
  const auto logits = engine.model().Forward({&step, 1}, Form::kRecurrent, workspace);
  double total = 0;
  ASSERT_EQ(result->tokens.size(), 13u);
  for (size_t i = 0; i < 13; ++i) {
    const auto row = logits.subspan((i + 2) * 256, 256);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    const double expected = row[tokens[i + 3]] - std::log(sum);
    EXPECT_EQ(result->tokens[i].token, tokens[i + 3]);
    EXPECT_NEAR(result->tokens[i].logprob, expected, 1e-5);
    EXPECT_EQ(result->tokens[i].top.size(), 2u);
    total += expected;
  }
  EXPECT_NEAR(result->total_logprob, total, 1e-4);
  EXPECT_EQ(result->scored_bytes, 13);
}

TEST(EngineTest, WithoutContextTheFirstTokenIsNotScored) {
  TestEngine engine;
  for (const auto& [text, scored] : {std::pair{"a", 0u}, {"ab", 1u}, {"abc", 2u}}) {
    ScoreRequest request;
    request.input.text = text;
    const auto result = Scored(engine, request);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->tokens.size(), scored) << text;
  }
}

TEST(EngineTest, WhatBeginsASequenceIsTheContextOfATextOnce) {
  class MarkedTokenizer : public ByteTokenizer {
   public:
    MarkedTokenizer() { set_start_ids({1}); }
  };
  TestEngine engine({}, /*softmax=*/false, /*prefix_bytes=*/0, std::make_unique<MarkedTokenizer>());
  ScoreRequest alone;
  alone.input.text = "abc";
  ScoreRequest spelled = alone;
  spelled.context.token_ids = {1};
  std::vector<double> totals;
  for (const ScoreRequest& request : {alone, spelled}) {
    const auto result = Scored(engine, request);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->token_ids, Bytes("abc"));
    EXPECT_EQ(result->tokens.size(), 3u);
    totals.push_back(result->total_logprob);
  }
  EXPECT_EQ(totals[0], totals[1]);
}

TEST(EngineTest, LogprobsComeWithTheTokens) {
  TestEngine engine;
  TurnRequest request = SeededTurn("x", 3);
  request.sampling.logprobs = 4;
  class Sink : public RecordingSink {
   public:
    void Chunk(TurnChunk chunk) override {
      for (const SampledToken& token : chunk.tokens) {
        EXPECT_LE(token.logprob, 0);
        EXPECT_EQ(token.top.size(), 4u);
      }
      RecordingSink::Chunk(std::move(chunk));
    }
  };
  auto sink = std::make_shared<Sink>();
  engine.Start(request, sink);
  sink->Wait();
  EXPECT_EQ(sink->tokens().size(), 3u);
}

}  // namespace
}  // namespace fermata
