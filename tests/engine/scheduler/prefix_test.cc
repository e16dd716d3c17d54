// Requests that bring a known text find the state after it, and say to the bit what they say where no
// state is kept.

#include "engine/scheduler/prefix.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

constexpr int64_t kPlenty = int64_t{64} << 20;

std::string Text(size_t length, int seed = 1) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < length) text.push_back(static_cast<char>('a' + random() % 26));
  return text;
}

TurnRequest Request(std::string text, int max_new_tokens = 20) {
  TurnRequest request = SeededTurn(std::move(text), max_new_tokens);
  request.sampling.logprobs = 2;
  return request;
}

// Bytes are this tokenizer's tokens, so that what was said can be brought again as it was.
TurnRequest Bytes(const std::string& text, const std::vector<int32_t>& more,
                  int max_new_tokens = 20) {
  TurnRequest request = Request("", max_new_tokens);
  for (const char c : text) {
    request.prompt.token_ids.push_back(static_cast<unsigned char>(c));
  }
  request.prompt.token_ids.insert(request.prompt.token_ids.end(), more.begin(), more.end());
  return request;
}

class PrefixTest : public ::testing::TestWithParam<Form> {
 protected:
  // What both engines say, which must be the same; and how much of the prompt was known.
  int32_t CachedTokens(const TurnRequest& request) {
    const auto with = with_.Run(request);
    const auto without = without_.Run(request);
    EXPECT_TRUE(with->completed() && without->completed());
    if (!with->completed() || !without->completed()) return -1;
    said_ = without->tokens();
    EXPECT_EQ(with->tokens(), said_);
    const std::vector<SampledToken> a = with->sampled();
    const std::vector<SampledToken> b = without->sampled();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) EXPECT_EQ(a[i].logprob, b[i].logprob);
    EXPECT_EQ(with->result().prompt_tokens, without->result().prompt_tokens);
    EXPECT_EQ(without->result().cached_tokens, 0);
    if (with->result().session.has_value()) {
      EXPECT_EQ(with->result().session->position, without->result().session->position);
    }
    return with->result().cached_tokens;
  }

  bool recurrent() const { return GetParam() == Form::kRecurrent; }

  const EngineOptions options_{.prefill_tokens_per_step = 200, .prefill_form = GetParam()};
  TestEngine with_{options_, /*softmax=*/false, kPlenty};
  TestEngine without_{options_};
  std::vector<int32_t> said_;
};

INSTANTIATE_TEST_SUITE_P(Forms, PrefixTest, ::testing::Values(Form::kRecurrent, Form::kChunkwise),
                         [](const auto& info) { return std::string(FormName(info.param)); });

TEST_P(PrefixTest, TheSamePromptAgain) {
  const std::string text = Text(1300);
  EXPECT_EQ(CachedTokens(Request(text)), 0);
  const int32_t known = recurrent() ? 1299 : 1024;
  EXPECT_EQ(CachedTokens(Request(text)), known);
  EXPECT_EQ(CachedTokens(Request(text, /*max_new_tokens=*/0)), known);
}

TEST_P(PrefixTest, AConversationThatIsBroughtWhole) {
  const std::string text = Text(100);
  EXPECT_EQ(CachedTokens(Request(text)), 0);
  const auto answer = said_;
  ASSERT_EQ(answer.size(), 20u);
  // All of it but the answer's last token was consumed.
  std::vector<int32_t> more = answer;
  more.push_back('x');
  EXPECT_EQ(CachedTokens(Bytes(text, more)), recurrent() ? 119 : 0);
}

TEST_P(PrefixTest, PromptsThatShareABeginning) {
  const std::string system = Text(1100);
  EXPECT_EQ(CachedTokens(Request(system + Text(50, 2))), 0);
  EXPECT_EQ(CachedTokens(Request(system + Text(70, 3))), 1024);
  EXPECT_EQ(CachedTokens(Request(system.substr(0, 600))), 512);
  EXPECT_EQ(CachedTokens(Request("other" + system)), 0);
}

TEST_P(PrefixTest, ASessionBeginsFromAKnownState) {
  const std::string text = Text(700);
  EXPECT_EQ(CachedTokens(Request(text)), 0);
  TurnRequest turn = SessionTurn("s", text + "and", 10);
  EXPECT_EQ(CachedTokens(turn), recurrent() ? 699 : 512);
  // It goes on by its own state.
  EXPECT_EQ(CachedTokens(SessionTurn("s", text, 10)), 0);
}

TEST_P(PrefixTest, OneTenantDoesNotFindWhatAnotherSent) {
  TurnRequest request = Request(Text(600));
  request.claim.tenant = "one";
  EXPECT_EQ(CachedTokens(request), 0);
  request.claim.tenant = "two";
  EXPECT_EQ(CachedTokens(request), 0);
  EXPECT_GT(CachedTokens(request), 0);
}

TEST_P(PrefixTest, ShortPromptsAreNotKept) {
  const std::string text = Text(kMinPrefixTokens - 1);
  CachedTokens(Request(text));
  EXPECT_EQ(CachedTokens(Request(text)), 0);
  EXPECT_EQ(with_.prefixes().stats().states, 0);
}

}  // namespace
}  // namespace fermata
