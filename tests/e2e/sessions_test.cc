// Sessions: resuming, the guard against lost replies, determinism, isolation, and their upkeep.

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"
#include "tests/settings.h"

namespace fermata::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

class SessionsTest : public SharedServerTest {};

TEST_F(SessionsTest, GoesOnWhereItStopped) {
  const Turn whole = RunOk(client(), Greedy(kPrompt, 30));
  const Turn first = RunOk(client(), On("go-on", Greedy(kPrompt, 10)));
  const int64_t tokens = first.complete.usage().prompt_tokens() + 10;
  EXPECT_EQ(first.complete.session().id(), "go-on");
  EXPECT_EQ(first.complete.session().position(), tokens - 1);
  const v1::Session session = *client().GetSession("go-on");
  EXPECT_EQ(session.position(), tokens - 1);
  EXPECT_EQ(session.pending_token(), first.ids.back());
  EXPECT_EQ(session.turns(), 1);

  const Turn second = RunOk(client(), On("go-on", Greedy("", 20)));
  EXPECT_EQ(second.started.position(), tokens - 1);
  EXPECT_EQ(second.chunks[0].position(), tokens);
  EXPECT_EQ(Joined(first.ids, second.ids), whole.ids);
  EXPECT_EQ(first.text + second.text, whole.text);
}

TEST_F(SessionsTest, ManyShortTurnsAreOneLongTurn) {
  v1::GenerateRequest penalised = Seeded(kPrompt, 60, 77);
  penalised.mutable_sampling()->set_repetition_penalty(1.3f);
  penalised.mutable_sampling()->set_frequency_penalty(0.2f);
  penalised.mutable_sampling()->set_top_k(40);
  int number = 0;
  for (const v1::GenerateRequest& request :
       {Greedy(kPrompt, 60), Seeded(kPrompt, 60, 77), penalised}) {
    const std::string session = "short-turns-" + std::to_string(number++);
    const Turn whole = RunOk(client(), request);
    std::vector<int32_t> ids;
    for (int n = 0; ids.size() < whole.ids.size(); n = n % 9 + 1) {
      v1::GenerateRequest part = request;
      if (!ids.empty()) part.clear_prompt();
      part.mutable_sampling()->set_max_new_tokens(std::min<int>(n + 1, 60 - ids.size()));
      ids = Joined(ids, RunOk(client(), On(session, part)).ids);
    }
    EXPECT_EQ(ids, whole.ids);
  }
}

TEST_F(SessionsTest, TurnsWithPromptsAreOneTurnOverTheSameTokens) {
  std::vector<int32_t> sequence;
  std::string session = "prompts";
  const std::vector<std::string> prompts = {kPrompt, " But then the dog", "", "\nThe end was"};
  for (const std::string& prompt : prompts) {
    const auto prompt_ids = Tokenize(client(), prompt);
    const Turn turn = RunOk(client(), On(session, Seeded(prompt, 12, 3)));
    sequence = Joined(sequence, prompt_ids);
    EXPECT_EQ(RunOk(client(), WithIds(Seeded("", 12, 3), sequence)).ids, turn.ids);
    sequence = Joined(sequence, turn.ids);
  }
  EXPECT_EQ(client().GetSession(session)->position(), static_cast<int64_t>(sequence.size()) - 1);
}

TEST_F(SessionsTest, ExpectedPositionGuards) {
  RunOk(client(), On("guard", Greedy(kPrompt, 10)));
  const v1::Session before = *client().GetSession("guard");
  v1::GenerateRequest request = On("guard", Greedy(" And", 5));
  for (const int64_t wrong : {int64_t{0}, before.position() - 1, before.position() + 1}) {
    request.mutable_session()->set_expected_position(wrong);
    const Turn turn = RunTurn(client(), request);
    EXPECT_TRUE(absl::IsAborted(turn.status)) << turn.status;
    EXPECT_EQ(Reason(turn.status), "POSITION_MISMATCH");
    EXPECT_EQ(Metadata(turn.status, "position"), std::to_string(before.position()));
    EXPECT_EQ(client().GetSession("guard")->DebugString(), before.DebugString());
  }
  request.mutable_session()->set_expected_position(before.position());
  RunOk(client(), request);
  EXPECT_EQ(client().GetSession("guard")->turns(), 2);
}

TEST_F(SessionsTest, TheSeedThatWasDrawnGivesTheSameTokensAgain) {
  v1::GenerateRequest request = Seeded(kPrompt, 30, 0);
  request.mutable_sampling()->clear_seed();
  const Turn first = RunOk(client(), request);
  request.mutable_sampling()->set_seed(first.complete.seed());
  EXPECT_EQ(RunOk(client(), request).ids, first.ids);
  request.mutable_sampling()->set_seed(first.complete.seed() + 1);
  EXPECT_NE(RunOk(client(), request).ids, first.ids);
}

TEST_F(SessionsTest, TokensDoNotDependOnTheLoad) {
  v1::GenerateRequest request = Seeded(kPrompt, 60, 99);
  request.mutable_sampling()->set_logprobs(0);
  const Turn alone = RunOk(client(), request);
  const auto noise_client = server().Connect();
  std::vector<std::unique_ptr<client::GenerateStream>> noise;
  for (int i = 0; i < 30; ++i) {
    noise.push_back(noise_client->StartGenerate(
        Seeded("Noise " + std::string(static_cast<size_t>(i), 'x'), 100000, 1000 + i)));
  }
  ASSERT_TRUE(server().MetricBecomes(kRunning, 30));
  for (int i = 0; i < 3; ++i) {
    const Turn loaded = RunOk(client(), request);
    EXPECT_EQ(loaded.ids, alone.ids);
    EXPECT_EQ(loaded.logprobs, alone.logprobs);  // To the bit.
  }
  noise.clear();
  EXPECT_TRUE(server().MetricBecomes(kRunning, 0));
}

// Many sessions over several connections, each with turns of its own words; then each one's last turn
// again, alone and from its tokens only.
TEST_F(SessionsTest, ManySessionsDoNotCross) {
  const int num_sessions = UnderSanitizer() ? 200 : 1000;
  constexpr int kThreads = 8;
  constexpr int kTurns = 3;
  struct Story {
    std::vector<int32_t> before;  // The tokens that the last turn went on from.
    std::vector<int32_t> last;
    uint64_t seed = 0;
  };
  std::vector<Story> stories(num_sessions);
  const auto work = [&](int thread) {
    const auto connection = server().Connect();
    for (int turn = 0; turn < kTurns; ++turn) {
      for (int i = thread; i < num_sessions; i += kThreads) {
        Story& story = stories[i];
        story.seed = static_cast<uint64_t>(i * kTurns + turn);
        const std::string words = " Marker" + std::to_string(i) + (turn == 1 ? " said" : " ran");
        const auto ids = Tokenize(*connection, words);
        const auto request = On("marker-" + std::to_string(i), Seeded(words, 4, story.seed));
        story.before = Joined(Joined(story.before, story.last), ids);
        story.last = RunOk(*connection, request).ids;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();

  for (int i = 0; i < num_sessions; ++i) {
    const Story& story = stories[i];
    const v1::Session session = *client().GetSession("marker-" + std::to_string(i));
    EXPECT_EQ(session.turns(), kTurns);
    EXPECT_EQ(session.position(),
              static_cast<int64_t>(story.before.size() + story.last.size()) - 1);
    const Turn alone = RunOk(client(), WithIds(Seeded("", 4, story.seed), story.before));
    ASSERT_EQ(alone.ids, story.last) << "session " << i;
  }
}

TEST_F(SessionsTest, Upkeep) {
  v1::CreateSessionRequest create;
  create.set_id("kept");
  (*create.mutable_labels())["user"] = "anna";
  create.mutable_time_to_live()->set_seconds(3600);
  const auto made = client().CreateSession(create);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position(), 0);
  EXPECT_FALSE(made->has_pending_token());
  EXPECT_EQ(made->state_bytes(), client().GetModel()->state_bytes());
  EXPECT_EQ(client().GetSession("kept")->DebugString(), made->DebugString());

  const auto again = client().CreateSession(create);
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_EQ(Reason(again.status()), "SESSION_EXISTS");

  v1::UpdateSessionRequest update;
  update.set_id("kept");
  (*update.mutable_labels()->mutable_values())["user"] = "ben";
  update.mutable_time_to_live();
  ASSERT_TRUE(client().UpdateSession(update).ok());
  EXPECT_EQ(client().GetSession("kept")->labels().at("user"), "ben");
  EXPECT_FALSE(client().GetSession("kept")->has_time_to_live());
  update.mutable_labels()->clear_values();
  EXPECT_EQ(client().UpdateSession(update)->labels_size(), 0);

  EXPECT_TRUE(client().DeleteSession("kept").ok());
  for (const absl::Status& status :
       {client().GetSession("kept").status(), client().UpdateSession(update).status(),
        client().DeleteSession("kept")}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(Reason(status), "SESSION_NOT_FOUND");
  }
  v1::GenerateRequest request = On("kept", Greedy(kPrompt, 1));
  request.mutable_session()->set_create_if_missing(false);
  EXPECT_EQ(Reason(RunTurn(client(), request).status), "SESSION_NOT_FOUND");
}

TEST_F(SessionsTest, TheServerNamesASessionThatHasNoName) {
  v1::GenerateRequest request = Greedy(kPrompt, 5);
  request.mutable_session()->set_create_if_missing(true);
  const Turn turn = RunOk(client(), request);
  EXPECT_GE(turn.started.session_id().size(), 16u);
  EXPECT_EQ(turn.complete.session().id(), turn.started.session_id());
  EXPECT_TRUE(client().GetSession(turn.started.session_id()).ok());
  EXPECT_NE(client().CreateSession({})->id(), client().CreateSession({})->id());
}

TEST_F(SessionsTest, ListsInPages) {
  v1::CreateSessionRequest create;
  (*create.mutable_labels())["shelf"] = "pages";
  for (int i = 0; i < 25; ++i) {
    create.set_id("page-" + std::string(1, static_cast<char>('a' + i)));
    (*create.mutable_labels())["even"] = i % 2 == 0 ? "yes" : "no";
    ASSERT_TRUE(client().CreateSession(create).ok());
  }
  v1::ListSessionsRequest request;
  request.set_page_size(10);
  (*request.mutable_labels())["shelf"] = "pages";
  std::vector<int> sizes;
  std::vector<std::string> ids;
  do {
    const auto page = client().ListSessions(request);
    ASSERT_TRUE(page.ok()) << page.status();
    sizes.push_back(page->sessions_size());
    for (const v1::Session& session : page->sessions()) ids.push_back(session.id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
  EXPECT_EQ(ids.front(), "page-a");
  EXPECT_EQ(ids.back(), "page-y");
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_THAT(*client().ListAllSessions({{"shelf", "pages"}, {"even", "yes"}}), SizeIs(13));
}

TEST_F(SessionsTest, ExpiresWhenItIsNotUsed) {
  v1::GenerateRequest request = On("brief", Greedy(kPrompt, 5));
  request.mutable_session()->mutable_time_to_live()->set_seconds(1);
  RunOk(client(), request);
  absl::Status status;
  ASSERT_TRUE(Eventually([&] {
    status = client().GetSession("brief").status();
    return !status.ok();
  }));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(Reason(status), "SESSION_EXPIRED");
}

}  // namespace
}  // namespace fermata::e2e
