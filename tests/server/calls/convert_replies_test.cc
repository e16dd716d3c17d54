#include <string>

#include "gmock/gmock.h"
#include "server/calls/convert.h"
#include "server/observe/finish_reason.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

ModelInfo Model() {
  ModelInfo model;
  model.name = "tale";
  model.family = "linear_attn";
  model.fingerprint = "0123";
  model.weights_dtype = "BF16";
  model.parameters = 11;
  model.num_layers = 2;
  model.hidden_size = 8;
  model.vocab_size = 16;
  model.eos_token_ids = {0, 3};
  model.state_bytes = 1000;
  model.kv_equivalent_bytes_per_token = 64;
  model.remarks = {"odd"};
  return model;
}

SessionRecord Record() {
  SessionRecord record;
  record.id = "s";
  record.position = 10;
  record.pending_token = 0;
  record.labels = {{"a", "b"}};
  record.create_time = absl::FromUnixNanos(1'500'000'000);
  record.update_time = absl::FromUnixNanos(-1);
  record.ttl = absl::Milliseconds(2500);
  record.turns = 3;
  record.revision = 18446744073709551615u;
  record.durability = Durability::kDisk;
  record.max_checkpoints = 4;
  record.pinned = true;
  record.parent_id = "p";
  record.parent_position = 6;
  record.checkpoints = {
      {.position = 5, .turns = 1, .time = absl::FromUnixSeconds(7)},
      {.position = 8, .turns = 2, .time = absl::FromUnixNanos(9'000'000'001)},
  };
  return record;
}

TEST(FillSessionTest, EveryFieldArrives) {
  v1::Session proto;
  FillSession(Record(), Model(), {}, &proto);
  EXPECT_EQ(proto.id(), "s");
  EXPECT_EQ(proto.position(), 10);
  ASSERT_TRUE(proto.has_pending_token());
  EXPECT_EQ(proto.pending_token(), 0);
  EXPECT_EQ(proto.state_bytes(), 1000);
  EXPECT_EQ(proto.kv_equivalent_bytes(), 640);
  EXPECT_EQ(proto.labels().at("a"), "b");
  EXPECT_EQ(proto.create_time().seconds(), 1);
  EXPECT_EQ(proto.create_time().nanos(), 500'000'000);
  // Nanos of a Timestamp are never negative.
  EXPECT_EQ(proto.update_time().seconds(), -1);
  EXPECT_EQ(proto.update_time().nanos(), 999'999'999);
  EXPECT_EQ(proto.time_to_live().seconds(), 2);
  EXPECT_EQ(proto.time_to_live().nanos(), 500'000'000);
  EXPECT_EQ(proto.turns(), 3);
  EXPECT_EQ(proto.revision(), 18446744073709551615u);
  EXPECT_EQ(proto.durability(), v1::DISK);
  EXPECT_EQ(proto.max_checkpoints(), 4);
  EXPECT_EQ(proto.checkpoints(), 2);
  EXPECT_TRUE(proto.pinned());
  EXPECT_EQ(proto.parent_id(), "p");
  EXPECT_EQ(proto.parent_position(), 6);

  v1::Session empty;
  FillSession(SessionRecord(), Model(), {.durability = Durability::kMemory, .max_checkpoints = 9},
              &empty);
  EXPECT_EQ(empty.durability(), v1::MEMORY);
  EXPECT_EQ(empty.max_checkpoints(), 9);
  FillSession(SessionRecord(), Model(), {.durability = Durability::kDisk}, &empty);
  EXPECT_EQ(empty.durability(), v1::DISK);
  EXPECT_FALSE(empty.has_pending_token());
  EXPECT_FALSE(empty.has_time_to_live());
}

TEST(FillCheckpointsTest, OldestFirst) {
  v1::ListCheckpointsResponse proto;
  FillCheckpoints(Record(), &proto);
  ASSERT_EQ(proto.checkpoints_size(), 2);
  EXPECT_EQ(proto.checkpoints(0).position(), 5);
  EXPECT_EQ(proto.checkpoints(0).turns(), 1);
  EXPECT_EQ(proto.checkpoints(0).time().seconds(), 7);
  EXPECT_EQ(proto.checkpoints(1).position(), 8);
  EXPECT_EQ(proto.checkpoints(1).turns(), 2);
  EXPECT_EQ(proto.checkpoints(1).time().nanos(), 1);
}

TEST(AppendChunkTest, ChunksThatFollowOneAnotherAreOne) {
  v1::Chunk proto;
  AppendChunk({.index = 4, .position = 9, .tokens = {{.token = 7}}, .text = ""}, false, &proto);
  AppendChunk({.index = 5, .position = 10, .tokens = {{.token = 1}}, .text = "hi"}, false, &proto);
  AppendChunk({.index = 6, .position = 11, .tokens = {}, .text = "!"}, false, &proto);
  EXPECT_EQ(proto.index(), 4);
  EXPECT_EQ(proto.position(), 9);
  EXPECT_THAT(proto.token_ids(), ElementsAre(7, 1));
  EXPECT_EQ(proto.text(), "hi!");
}

TEST(AppendChunkTest, LogprobsOnlyWhenAskedFor) {
  const TurnChunk chunk = {.index = 4,
                           .position = 9,
                           .tokens = {{.token = 7, .logprob = -0.5, .top = {{7, -0.5}, {2, -1.5}}},
                                      {.token = 1, .logprob = -2, .top = {}}},
                           .text = "hi"};
  v1::Chunk plain;
  AppendChunk(chunk, false, &plain);
  EXPECT_THAT(plain.token_ids(), ElementsAre(7, 1));
  EXPECT_EQ(plain.logprobs_size(), 0);

  v1::Chunk full;
  AppendChunk(chunk, true, &full);
  ASSERT_EQ(full.logprobs_size(), 2);
  EXPECT_EQ(full.logprobs(0).token_id(), 7);
  EXPECT_EQ(full.logprobs(0).logprob(), -0.5f);
  ASSERT_EQ(full.logprobs(0).top_size(), 2);
  EXPECT_EQ(full.logprobs(0).top(1).token_id(), 2);
  EXPECT_EQ(full.logprobs(0).top(1).logprob(), -1.5f);
  EXPECT_EQ(full.logprobs(1).top_size(), 0);
}

TEST(FillCompleteTest, EveryFieldArrives) {
  TurnResult result;
  result.reason = FinishReason::kStop;
  result.matched_stop = "END";
  result.prompt_tokens = 5;
  result.generated_tokens = 6;
  result.cached_tokens = 4;
  result.timings.queue = absl::Milliseconds(1);
  result.timings.prefill = absl::Milliseconds(2);
  result.timings.time_to_first_token = absl::Milliseconds(3);
  result.timings.decode = absl::Milliseconds(4);
  result.session = Record();
  result.seed = 99;
  v1::Complete proto;
  FillComplete(result, Model(), &proto);
  EXPECT_EQ(proto.finish_reason(), v1::STOP);
  EXPECT_EQ(proto.matched_stop(), "END");
  EXPECT_EQ(proto.usage().prompt_tokens(), 5);
  EXPECT_EQ(proto.usage().generated_tokens(), 6);
  EXPECT_EQ(proto.usage().cached_tokens(), 4);
  EXPECT_EQ(proto.timings().queue().nanos(), 1'000'000);
  EXPECT_EQ(proto.timings().prefill().nanos(), 2'000'000);
  EXPECT_EQ(proto.timings().time_to_first_token().nanos(), 3'000'000);
  EXPECT_EQ(proto.timings().decode().nanos(), 4'000'000);
  EXPECT_EQ(proto.session().id(), "s");
  EXPECT_EQ(proto.session().position(), 10);
  EXPECT_EQ(proto.session().state_bytes(), 1000);
  EXPECT_EQ(proto.session().kv_equivalent_bytes(), 640);
  EXPECT_EQ(proto.seed(), 99u);

  v1::Complete bare;
  FillComplete(TurnResult(), Model(), &bare);
  EXPECT_FALSE(bare.has_session());
  EXPECT_FALSE(bare.timings().has_time_to_first_token());
}

TEST(FinishReasonTest, NamesAreThoseOfTheContractInLowerCase) {
  using R = FinishReason;
  for (const R reason :
       {R::kStop, R::kStopToken, R::kLength, R::kCancelled, R::kTimeLimit, R::kDrained}) {
    TurnResult result;
    result.reason = reason;
    v1::Complete proto;
    FillComplete(result, Model(), &proto);
    std::string name = v1::FinishReason_Name(proto.finish_reason());
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(name, FinishReasonName(reason));
  }
}

TEST(FillScoreTest, EveryFieldArrives) {
  ScoreResult result;
  result.token_ids = {1, 2};
  result.tokens = {{.token = 2, .logprob = -3, .top = {{5, -1}}}};
  result.total_logprob = -3;
  result.scored_bytes = 4;
  v1::ScoreResponse proto;
  FillScore(result, &proto);
  EXPECT_THAT(proto.token_ids(), ElementsAre(1, 2));
  ASSERT_EQ(proto.logprobs_size(), 1);
  EXPECT_EQ(proto.logprobs(0).top(0).token_id(), 5);
  EXPECT_EQ(proto.total_logprob(), -3);
  EXPECT_EQ(proto.scored_bytes(), 4);
}

TEST(FillModelTest, EveryFieldArrives) {
  v1::Model proto;
  FillModel(Model(), "bpe", &proto);
  EXPECT_EQ(proto.name(), "tale");
  EXPECT_EQ(proto.family(), "linear_attn");
  EXPECT_EQ(proto.fingerprint(), "0123");
  EXPECT_EQ(proto.weights_dtype(), "BF16");
  EXPECT_EQ(proto.parameters(), 11);
  EXPECT_EQ(proto.num_layers(), 2);
  EXPECT_EQ(proto.hidden_size(), 8);
  EXPECT_EQ(proto.vocab_size(), 16);
  EXPECT_EQ(proto.tokenizer(), "bpe");
  EXPECT_THAT(proto.eos_token_ids(), ElementsAre(0, 3));
  EXPECT_EQ(proto.state_bytes(), 1000);
  EXPECT_EQ(proto.kv_equivalent_bytes_per_token(), 64);
  EXPECT_TRUE(proto.fixed_size_state());
  EXPECT_THAT(proto.remarks(), ElementsAre("odd"));
}

TEST(BreakEvenTest, IsTheFirstTokenAtWhichTheCacheIsLarger) {
  ModelInfo model;
  for (model.state_bytes = 0; model.state_bytes < 300; ++model.state_bytes) {
    model.kv_equivalent_bytes_per_token = 64;
    const int64_t tokens = model.break_even_tokens();
    EXPECT_GT(tokens * 64, model.state_bytes);
    EXPECT_LE((tokens - 1) * 64, model.state_bytes);
  }
  model.kv_equivalent_bytes_per_token = 0;
  EXPECT_EQ(model.break_even_tokens(), 0);
}

}  // namespace
}  // namespace fermata
