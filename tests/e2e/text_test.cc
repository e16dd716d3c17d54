// What a turn streams: tokens, text, log-probabilities, and where it stops.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kPrompt[] = "Once upon a time, there was a little";

class TextTest : public SharedServerTest {};

TEST_F(TextTest, StreamsATurn) {
  v1::GenerateRequest request = Greedy(kPrompt, 40);
  request.set_request_id("first light");
  request.mutable_sampling()->set_seed(11);
  const Turn turn = RunOk(client(), request);
  EXPECT_EQ(turn.started.request_id(), "first light");
  EXPECT_EQ(turn.started.model(), client().GetModel()->name());
  EXPECT_EQ(turn.started.session_id(), "");
  EXPECT_EQ(turn.started.position(), 0);
  const auto prompt = Tokenize(client(), kPrompt);
  ASSERT_THAT(turn.chunks, Not(IsEmpty()));
  EXPECT_EQ(turn.chunks[0].position(), static_cast<int64_t>(prompt.size()));
  EXPECT_THAT(turn.ids, SizeIs(40));
  EXPECT_EQ(turn.complete.finish_reason(), v1::LENGTH);
  EXPECT_EQ(turn.complete.usage().prompt_tokens(), static_cast<int64_t>(prompt.size()));
  EXPECT_EQ(turn.complete.seed(), 11u);
  EXPECT_FALSE(turn.complete.has_session());
  EXPECT_TRUE(turn.complete.timings().has_time_to_first_token());
}

TEST_F(TextTest, TokensComeWhileTheTurnGoesOn) {
  const auto stream = client().StartGenerate(Endless(kPrompt));
  v1::GenerateResponse event;
  for (int chunks = 0; chunks < 20;) {
    ASSERT_TRUE(stream->Next(&event)) << stream->Finish();
    chunks += event.has_chunk() ? 1 : 0;
  }
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
}

// Hot sampling from a byte-level vocabulary: characters cut anywhere, and bytes that are no UTF-8.
TEST_F(TextTest, StreamedTextIsTheTokensText) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    v1::GenerateRequest request = Seeded(kPrompt, 80, seed);
    request.mutable_sampling()->set_temperature(seed % 2 == 0 ? 1 : 8);
    const Turn turn = RunOk(client(), request);
    EXPECT_EQ(turn.text, Detokenize(client(), turn.ids)) << "seed " << seed;
  }
}

// Biases that leave no choice but the bytes of one character, in their order: each, once chosen, is
// pushed back by the presence penalty.
TEST_F(TextTest, CharactersSplitOverTokensComeWhole) {
  for (const std::string& character : {std::string("é"), std::string("漢"), std::string("🎉")}) {
    const std::vector<int32_t> bytes = Tokenize(client(), character);
    ASSERT_EQ(bytes.size(), character.size())
        << "the vocabulary has " << character << " as a token";
    v1::GenerateRequest request = Greedy(kPrompt, static_cast<int>(bytes.size()));
    request.mutable_sampling()->set_presence_penalty(100);
    float bias = 100;
    for (const int32_t id : bytes) {
      (*request.mutable_sampling()->mutable_logit_bias())[id] = bias;
      bias -= 20;
    }
    const Turn whole = RunOk(client(), request);
    ASSERT_THAT(whole.ids, ElementsAreArray(bytes));
    EXPECT_EQ(whole.text, character);

    // Cut short, it is no character any more.
    request.mutable_sampling()->set_max_new_tokens(static_cast<int>(bytes.size()) - 1);
    const Turn cut = RunOk(client(), request);
    EXPECT_EQ(cut.text, Detokenize(client(), cut.ids));
    EXPECT_THAT(cut.text, Not(HasSubstr(character)));
  }
}

TEST_F(TextTest, StopStringsEndTheTextAndNeverLeak) {
  const Turn free = RunOk(client(), Greedy(kPrompt, 60));
  std::vector<size_t> ends;  // Of each token in the text.
  for (size_t n = 1; n <= free.ids.size(); ++n) {
    ends.push_back(Detokenize(client(), {free.ids.begin(), free.ids.begin() + n}).size());
  }
  ASSERT_EQ(ends.back(), free.text.size());
  for (size_t i = 2; i + 3 < ends.size(); i += 5) {
    // From inside token i to inside token i + 2.
    const size_t begin = ends[i] - 1;
    const std::string stop = free.text.substr(begin, ends[i + 1] + 1 - begin);
    const size_t found = free.text.find(stop);
    v1::GenerateRequest request = On("stop-" + std::to_string(i), Greedy(kPrompt, 60));
    request.mutable_sampling()->add_stop("not in this story");
    request.mutable_sampling()->add_stop(stop);
    const Turn turn = RunOk(client(), request);
    EXPECT_EQ(turn.complete.finish_reason(), v1::STOP);
    EXPECT_EQ(turn.complete.matched_stop(), stop);
    EXPECT_EQ(turn.text, free.text.substr(0, found));
    // The sequence keeps the tokens that spelled it.
    EXPECT_THAT(free.text.substr(0, found + stop.size()),
                StartsWith(Detokenize(client(), {turn.ids.begin(), turn.ids.end() - 1})));
    EXPECT_THAT(Detokenize(client(), turn.ids), HasSubstr(stop));
    const int64_t tokens = turn.complete.usage().prompt_tokens() + turn.ids.size();
    EXPECT_EQ(client().GetSession(request.session().id())->position(), tokens - 1);
  }
}

TEST_F(TextTest, WhatOnlyBeginsAStopStringIsSent) {
  const Turn free = RunOk(client(), Greedy(kPrompt, 20));
  v1::GenerateRequest request = Greedy(kPrompt, 20);
  request.mutable_sampling()->add_stop(free.text.substr(free.text.size() - 6) + "\x01");
  const Turn turn = RunOk(client(), request);
  EXPECT_EQ(turn.complete.finish_reason(), v1::LENGTH);
  EXPECT_EQ(turn.text, free.text);
}

TEST_F(TextTest, StopTokensEndTheTurn) {
  const Turn free = RunOk(client(), Greedy(kPrompt, 30));
  v1::GenerateRequest request = Greedy(kPrompt, 30);
  request.mutable_sampling()->add_stop_token_ids(free.ids[7]);
  const auto first = std::find(free.ids.begin(), free.ids.end(), free.ids[7]);
  const Turn turn = RunOk(client(), request);
  EXPECT_EQ(turn.complete.finish_reason(), v1::STOP_TOKEN);
  EXPECT_EQ(turn.ids, std::vector<int32_t>(free.ids.begin(), first + 1));
  EXPECT_EQ(turn.text, Detokenize(client(), {free.ids.begin(), first}));

  request.mutable_sampling()->set_min_new_tokens(30);
  EXPECT_THAT(RunOk(client(), request).ids, SizeIs(30));
}

TEST_F(TextTest, EndOfTextEndsTheTurnUnlessIgnored) {
  const v1::Model model = *client().GetModel();
  ASSERT_GT(model.eos_token_ids_size(), 0);
  v1::GenerateRequest request = Greedy(kPrompt, 5);
  (*request.mutable_sampling()->mutable_logit_bias())[model.eos_token_ids(0)] = 100;
  const Turn ignored = RunOk(client(), request);
  EXPECT_EQ(ignored.ids, std::vector<int32_t>(5, model.eos_token_ids(0)));
  EXPECT_EQ(ignored.text, "");
  request.mutable_sampling()->clear_ignore_eos();
  const Turn turn = RunOk(client(), request);
  EXPECT_EQ(turn.complete.finish_reason(), v1::STOP_TOKEN);
  EXPECT_EQ(turn.ids, std::vector<int32_t>(1, model.eos_token_ids(0)));
}

TEST_F(TextTest, LogprobsAreThoseThatScoreTells) {
  v1::GenerateRequest request = Seeded(kPrompt, 30, 5);
  request.mutable_sampling()->set_logprobs(3);
  const Turn turn = RunOk(client(), request);
  ASSERT_THAT(turn.logprobs, SizeIs(30));

  v1::ScoreRequest score;
  score.set_context_text(kPrompt);
  score.mutable_token_ids()->mutable_ids()->Add(turn.ids.begin(), turn.ids.end());
  score.set_top_logprobs(3);
  const auto reply = client().Score(score);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->logprobs_size(), 30);
  double total = 0;
  int at = 0;
  for (const v1::Chunk& chunk : turn.chunks) {
    for (const v1::TokenLogprobs& generated : chunk.logprobs()) {
      const v1::TokenLogprobs& scored = reply->logprobs(at++);
      EXPECT_EQ(scored.token_id(), generated.token_id());
      EXPECT_EQ(scored.logprob(), generated.logprob());  // To the bit.
      EXPECT_LE(scored.logprob(), scored.top(0).logprob());
      ASSERT_EQ(scored.top_size(), 3);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(scored.top(i).token_id(), generated.top(i).token_id());
      total += generated.logprob();
    }
  }
  EXPECT_NEAR(reply->total_logprob(), total, 1e-4);
}

TEST_F(TextTest, NoNewTokensOnlyConsumesThePrompt) {
  const auto prompt = Tokenize(client(), kPrompt);
  const Turn turn = RunOk(client(), On("quiet", Greedy(kPrompt, 0)));
  EXPECT_THAT(turn.ids, IsEmpty());
  const v1::Session session = *client().GetSession("quiet");
  EXPECT_EQ(session.position(), static_cast<int64_t>(prompt.size()) - 1);
  EXPECT_EQ(session.pending_token(), prompt.back());
  EXPECT_EQ(RunOk(client(), On("quiet", Greedy("", 10))).ids,
            RunOk(client(), Greedy(kPrompt, 10)).ids);
}

TEST_F(TextTest, TokenizeAndDetokenizeAreInverse) {
  const std::string text = "Once, a naïve 漢 cat 🎉 said:\n\t\"Hi!\"  <|endoftext|> ";
  EXPECT_EQ(Detokenize(client(), Tokenize(client(), text)), text);
}

}  // namespace
}  // namespace fermata::e2e
