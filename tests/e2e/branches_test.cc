// Sessions that branch, go back, and travel: forks, templates, checkpoints, guards, exports, imports.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

class BranchesTest : public SharedServerTest {
 protected:
  // A turn on a session that is there.
  std::vector<int32_t> Go(const std::string& session, const std::string& prompt, int n) {
    const auto prompt_ids = Tokenize(client(), prompt);
    return Joined(prompt_ids, RunOk(client(), On(session, Greedy(prompt, n))).ids);
  }
  // What follows `sequence` when it is read by a fresh state.
  std::vector<int32_t> Fresh(const std::vector<int32_t>& sequence, int n) {
    return RunOk(client(), WithIds(Greedy("", n), sequence)).ids;
  }
  // The session goes on as a fresh run over `sequence` would.
  void ExpectStandsAfter(const std::string& session, const std::vector<int32_t>& sequence) {
    constexpr int kMore = 8;
    EXPECT_EQ(client().GetSession(session)->position(), static_cast<int64_t>(sequence.size()) - 1);
    v1::ForkSessionRequest fork;  // So that the session itself stays where it is.
    fork.set_id(session);
    const auto probe = client().ForkSession(fork);
    ASSERT_TRUE(probe.ok()) << probe.status();
    EXPECT_EQ(RunOk(client(), On(probe->id(), Greedy("", kMore))).ids, Fresh(sequence, kMore));
    EXPECT_TRUE(client().DeleteSession(probe->id()).ok());
  }
  std::string Export(const std::string& id) {
    v1::ExportSessionRequest request;
    request.set_id(id);
    std::string snapshot;
    int64_t total = 0;
    const absl::Status status =
        client().ExportSession(request, [&](std::string_view piece, int64_t of) {
          snapshot += piece;
          total = of;
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(static_cast<int64_t>(snapshot.size()), total);
    return snapshot;
  }
  static v1::ImportOptions As(const std::string& id, bool replace = false) {
    v1::ImportOptions options;
    options.set_id(id);
    options.set_replace(replace);
    return options;
  }
};

TEST_F(BranchesTest, ForksGoTheirOwnWays) {
  const auto base = Go("base", kPrompt, 10);
  v1::ForkSessionRequest fork;
  fork.set_id("base");
  for (const std::string id : {"fork-a", "fork-b"}) {
    fork.set_new_id(id);
    (*fork.mutable_labels())["of"] = id;
    const auto made = client().ForkSession(fork);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->id(), id);
    EXPECT_EQ(made->parent_id(), "base");
    EXPECT_EQ(made->parent_position(), static_cast<int64_t>(base.size()) - 1);
    EXPECT_EQ(made->labels().at("of"), id);
  }
  const auto a = Joined(base, Go("fork-a", " dog ran", 9));
  const auto b = Joined(base, Go("fork-b", " cat slept", 12));
  ExpectStandsAfter("fork-a", a);
  ExpectStandsAfter("fork-b", b);
  ExpectStandsAfter("base", base);
  // What a fork was made of may go.
  ASSERT_TRUE(client().DeleteSession("base").ok());
  ExpectStandsAfter("fork-a", a);
  const absl::Status again = client().ForkSession(fork).status();
  EXPECT_EQ(Reason(again), "SESSION_NOT_FOUND");
  fork.set_id("fork-a");
  EXPECT_EQ(Reason(client().ForkSession(fork).status()), "SESSION_EXISTS");
}

TEST_F(BranchesTest, RewoundIsAsIfTheTurnsHadNotBeen) {
  v1::CreateSessionRequest create;
  create.set_id("rewound");
  create.set_max_checkpoints(8);
  ASSERT_TRUE(client().CreateSession(create).ok());
  const auto one = Go("rewound", kPrompt, 7);
  const auto two = Joined(one, Go("rewound", " dog who", 6));
  const auto three = Joined(two, Go("rewound", " But then", 5));
  const auto listed = client().ListCheckpoints("rewound");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_GE(listed->checkpoints_size(), 2);
  const v1::CheckpointInfo& last = listed->checkpoints(listed->checkpoints_size() - 1);
  EXPECT_EQ(last.turns(), 2);
  EXPECT_EQ(last.position(), static_cast<int64_t>(two.size()) - 1);

  // A fork from the past leaves the session alone.
  v1::ForkSessionRequest fork;
  fork.set_id("rewound");
  fork.set_new_id("from-one");
  fork.mutable_from()->set_turns(1);
  ASSERT_TRUE(client().ForkSession(fork).ok());
  ExpectStandsAfter("from-one", one);
  ExpectStandsAfter("rewound", three);

  v1::RewindSessionRequest rewind;
  rewind.set_id("rewound");
  rewind.mutable_to()->set_before_last_turn(true);
  const auto back = client().RewindSession(rewind);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->turns(), 2);
  ExpectStandsAfter("rewound", two);
  const auto other = Joined(two, Go("rewound", " And so", 5));
  ExpectStandsAfter("rewound", other);

  rewind.mutable_to()->set_position(static_cast<int64_t>(one.size()) - 1);
  ASSERT_TRUE(client().RewindSession(rewind).ok());
  ExpectStandsAfter("rewound", one);
  rewind.mutable_to()->set_turns(2);  // It went with the rewinding.
  const absl::Status gone = client().RewindSession(rewind).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_EQ(Reason(gone), "CHECKPOINT_NOT_FOUND");
  ExpectStandsAfter("rewound", one);
}

TEST_F(BranchesTest, CheckpointsAreBounded) {
  v1::CreateSessionRequest create;
  create.set_id("bounded");
  create.set_max_checkpoints(2);
  ASSERT_TRUE(client().CreateSession(create).ok());
  for (int i = 0; i < 5; ++i) Go("bounded", " Then", 2);
  const auto listed = client().ListCheckpoints("bounded");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_THAT(listed->checkpoints(), SizeIs(2));
  EXPECT_EQ(listed->checkpoints(0).turns(), 3);
  EXPECT_EQ(listed->checkpoints(1).turns(), 4);
  v1::UpdateSessionRequest update;
  update.set_id("bounded");
  update.set_max_checkpoints(0);
  EXPECT_EQ(client().UpdateSession(update)->checkpoints(), 0);
  EXPECT_THAT(client().ListCheckpoints("bounded")->checkpoints(), IsEmpty());
}

TEST_F(BranchesTest, TemplatesAreForkedAndNeverUsedUp) {
  const std::string system = "Tom was a boy who had a dog. The dog was called Max. ";
  v1::GenerateRequest read = On("template", Greedy(system, 0));
  RunOk(client(), read);
  v1::UpdateSessionRequest update;
  update.set_id("template");
  update.set_pinned(true);
  EXPECT_TRUE(client().UpdateSession(update)->pinned());

  const auto prefix = Tokenize(client(), system);
  for (const std::string words : {"One day Tom", "Max said"}) {
    const auto ids = Tokenize(client(), words);
    v1::GenerateRequest request;
    request = WithIds(Greedy("", 8), ids);
    request.mutable_session()->set_create_if_missing(true);
    request.mutable_session()->set_fork_from("template");
    const Turn turn = RunOk(client(), request);
    EXPECT_EQ(turn.started.position(), static_cast<int64_t>(prefix.size()) - 1);
    EXPECT_EQ(turn.complete.usage().prompt_tokens(), static_cast<int32_t>(ids.size()));
    EXPECT_EQ(turn.ids, Fresh(Joined(prefix, ids), 8));
    EXPECT_EQ(client().GetSession(turn.started.session_id())->parent_id(), "template");
  }
  v1::RewindSessionRequest rewind;
  rewind.set_id("template");
  rewind.mutable_to()->set_before_last_turn(true);
  for (const absl::Status& status :
       {RunTurn(client(), On("template", Greedy(" And", 1))).status,
        client().RewindSession(rewind).status(), client().DeleteSession("template")}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(Reason(status), "SESSION_PINNED");
  }
  update.set_pinned(false);
  ASSERT_TRUE(client().UpdateSession(update).ok());
  EXPECT_TRUE(client().DeleteSession("template").ok());
}

TEST_F(BranchesTest, AChangeThatWasNotSeenIsNotOverwritten) {
  Go("etag", kPrompt, 3);
  v1::UpdateSessionRequest update;
  update.set_id("etag");
  update.set_expected_revision(client().GetSession("etag")->revision());
  (*update.mutable_labels()->mutable_values())["by"] = "anna";
  const auto first = client().UpdateSession(update);
  ASSERT_TRUE(first.ok()) << first.status();
  (*update.mutable_labels()->mutable_values())["by"] = "ben";
  v1::DeleteSessionRequest remove;
  remove.set_id("etag");
  remove.set_expected_revision(update.expected_revision());
  v1::ForkSessionRequest fork;
  fork.set_id("etag");
  fork.set_expected_revision(update.expected_revision());
  for (const absl::Status& status :
       {client().UpdateSession(update).status(), client().DeleteSession(remove),
        client().ForkSession(fork).status()}) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(Reason(status), "REVISION_MISMATCH");
    EXPECT_EQ(Metadata(status, "revision"), std::to_string(first->revision()));
  }
  EXPECT_EQ(client().GetSession("etag")->labels().at("by"), "anna");
  remove.clear_expected_revision();
  remove.set_expected_position(1);
  EXPECT_EQ(Reason(client().DeleteSession(remove)), "POSITION_MISMATCH");
  remove.set_expected_position(first->position());
  EXPECT_TRUE(client().DeleteSession(remove).ok());
}

// Each adds its own word when it has seen where the session stands: every turn that was told as
// complete is in the session, once, and no other.
TEST_F(BranchesTest, TwoWritersOnOneSession) {
  Go("shared", kPrompt, 1);
  constexpr int kTurns = 12;
  std::atomic<int> done = 0;
  const auto write = [&](const std::string& word) {
    const auto connection = server().Connect();
    for (int turn = 0; turn < kTurns;) {
      v1::GenerateRequest request = On("shared", Greedy(word, 2));
      request.mutable_session()->set_expected_position(
          connection->GetSession("shared")->position());
      const Turn outcome = RunTurn(*connection, request);
      if (outcome.status.ok()) {
        ++turn;
        ++done;
      } else {
        EXPECT_TRUE(absl::IsAborted(outcome.status)) << outcome.status;
      }
    }
  };
  std::thread anna(write, " Anna");
  write(" Ben");
  anna.join();
  EXPECT_EQ(client().GetSession("shared")->turns(), 1 + 2 * kTurns);
}

TEST_F(BranchesTest, ATurnKeepsOthersAway) {
  const auto turn = client().StartGenerate(On("busy", Endless(kPrompt)));
  v1::GenerateResponse event;
  while (turn->Next(&event) && !event.has_chunk()) {
  }
  const absl::Status deleted = client().DeleteSession("busy");
  EXPECT_TRUE(absl::IsAborted(deleted) || absl::IsNotFound(deleted)) << deleted;
  turn->Cancel();
  EXPECT_TRUE(Eventually([&] { return client().DeleteSession("busy").ok(); }));
}

TEST_F(BranchesTest, AnExportGoesOnOnAnotherServer) {
  const auto base = Go("traveller", kPrompt, 20);
  const std::string snapshot = Export("traveller");
  EXPECT_GT(static_cast<int64_t>(snapshot.size()), client().GetModel()->state_bytes());

  ServerProcess other;
  const auto there = other.Connect();
  const auto made = there->ImportSession({}, snapshot);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->id(), "traveller");
  EXPECT_EQ(made->position(), static_cast<int64_t>(base.size()) - 1);
  EXPECT_EQ(made->turns(), 1);
  const auto expected = RunOk(client(), On("traveller", Seeded(" dog", 15, 5)));
  EXPECT_EQ(RunOk(*there, On("traveller", Seeded(" dog", 15, 5))).ids, expected.ids);

  // Here it is another session, or takes the place of the one that went on.
  EXPECT_EQ(Reason(client().ImportSession({}, snapshot).status()), "SESSION_EXISTS");
  ASSERT_TRUE(client().ImportSession(As("traveller-2"), snapshot).ok());
  ExpectStandsAfter("traveller-2", base);
  ASSERT_TRUE(client().ImportSession(As("traveller", true), snapshot).ok());
  ExpectStandsAfter("traveller", base);
}

TEST_F(BranchesTest, WhatIsNoSnapshotOfThisModelIsRefused) {
  Go("good", kPrompt, 5);
  const std::string snapshot = Export("good");
  const std::string before = client().GetSession("good")->DebugString();
  for (const size_t at :
       {size_t{0}, size_t{9}, size_t{70}, snapshot.size() / 2, snapshot.size() - 1}) {
    std::string altered = snapshot;
    altered[at] ^= 4;
    const absl::Status status = client().ImportSession(As("good", true), altered).status();
    EXPECT_FALSE(status.ok()) << at;
    if (at != 9) {  // Where the version is.
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << at << ": " << status;
      EXPECT_EQ(Reason(status), "SNAPSHOT_DAMAGED") << at;
      EXPECT_NE(Metadata(status, "offset"), "") << at;
    }
  }
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{64}, snapshot.size() / 2, snapshot.size() - 1}) {
    const absl::Status status =
        client().ImportSession(As("good", true), snapshot.substr(0, size)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << size << ": " << status;
  }
  const std::string longer = snapshot + std::string(100'000, 'x');
  EXPECT_EQ(Reason(client().ImportSession(As("good", true), longer).status()), "SNAPSHOT_DAMAGED");
  EXPECT_EQ(client().GetSession("good")->DebugString(), before);

  // The same model with its weights held otherwise computes other numbers.
  ServerProcess other({"--weights=int8"});
  const absl::Status foreign = other.Connect()->ImportSession({}, snapshot).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(foreign)) << foreign;
  EXPECT_EQ(Reason(foreign), "SNAPSHOT_MODEL");
  EXPECT_THAT(client::DetailsOf(foreign).metadata, testing::Not(IsEmpty()));
  EXPECT_THAT(*other.Connect()->ListAllSessions(), IsEmpty());
}

}  // namespace
}  // namespace fermata::e2e
