// Crashes: a server with durable sessions is killed at random moments, again and again. After each
// start, every session whose `complete` was received is where it was then and goes on with exactly the
// tokens of a run that nothing interrupted; a turn that was under way is there wholly or not at all.
//
// FERMATA_CRASH_ROUNDS says how often; FERMATA_CRASH_SEED varies the moments.

#include <array>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"
#include "tests/settings.h"

namespace fermata::e2e {
namespace {

constexpr int kSessions = 24;
constexpr int kClients = 8;
constexpr int kTurns = 40;  // Of a session, which is then deleted and begins anew.

std::string IdOf(int session) { return "s" + std::to_string(session); }

// Turn `turn` of a session, different for each.
v1::GenerateRequest RequestOf(int session, int turn) {
  v1::GenerateRequest request =
      Greedy("S" + std::to_string(session) + "t" + std::to_string(turn) + ":", 2 + turn % 4);
  request = On(IdOf(session), request);
  // Some keep checkpoints, whose files come and go in other orders.
  request.mutable_session()->set_max_checkpoints(session % 3);
  return request;
}

// How a session stands after each turn of an uninterrupted run.
struct Expected {
  int64_t position = 0;
  int32_t pending = 0;
  std::vector<int32_t> ids;  // Of the turn.
};
using Story = std::array<Expected, kTurns>;

// What the clients know of one session.
struct Known {
  int turns = 0;          // Told as complete; 0: there is none, or it was deleted.
  bool turning = false;   // A turn was sent, and nothing was heard of it.
  bool deleting = false;  // A deletion was sent, and nothing was heard of it.
};

class CrashTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeSmallModel(model());
    ServerProcess server({"--model_dir=" + model()});
    const auto client = server.Connect();
    for (int session = 0; session < kSessions; ++session) {
      for (int turn = 0; turn < kTurns; ++turn) {
        const Turn done = RunOk(*client, RequestOf(session, turn));
        stories_[session][turn] = {.position = done.complete.session().position(),
                                   .pending = done.ids.back(),
                                   .ids = done.ids};
      }
    }
  }

  std::string model() const { return (directory_ / "model").string(); }
  std::vector<std::string> Flags() const {
    return {"--model_dir=" + model(),
            // Few fit, so that they move up and down all the time.
            "--session_tiers=memory:" + std::to_string(memory_) +
                ",disk:" + (directory_ / "sessions").string(),
            "--session_durability=disk", "--log_level=warning"};
  }

  // That each session is where it must be; takes up what the crash decided.
  void Check(client::Client& client);
  // Runs turns on every kClients-th session until the server is gone.
  void Work(const ServerProcess& server, int thread);
  void Step(client::Client& client, int session);

  std::mt19937_64 random_{static_cast<uint64_t>(Setting("FERMATA_CRASH_SEED", 1))};
  std::array<Story, kSessions> stories_;
  std::array<Known, kSessions> known_;
  int64_t memory_ = 1 << 20;

 private:
  TempDir directory_;
};

void CrashTest::Check(client::Client& client) {
  const auto listed = client.ListAllSessions();
  ASSERT_TRUE(listed.ok()) << listed.status();
  std::map<std::string, v1::Session> found;
  for (const v1::Session& session : *listed) found[session.id()] = session;
  for (int i = 0; i < kSessions; ++i) {
    Known& known = known_[i];
    const auto at = found.find(IdOf(i));
    if (at == found.end()) {
      ASSERT_TRUE(known.turns == 0 || known.deleting) << IdOf(i) << " is gone";
      known = {};
      continue;
    }
    const v1::Session& session = at->second;
    const auto turns = static_cast<int>(session.turns());
    ASSERT_TRUE(turns == known.turns || (known.turning && turns == known.turns + 1))
        << IdOf(i) << " has " << turns << " turns, not " << known.turns;
    ASSERT_GT(turns, 0) << IdOf(i);
    const Expected& expected = stories_[i][turns - 1];
    ASSERT_EQ(session.position(), expected.position) << IdOf(i);
    ASSERT_EQ(session.pending_token(), expected.pending) << IdOf(i);
    ASSERT_LE(session.checkpoints(), i % 3) << IdOf(i);
    known = {.turns = turns};
    found.erase(at);
  }
  ASSERT_TRUE(found.empty()) << found.begin()->first << " was never made";
}

void CrashTest::Step(client::Client& client, int session) {
  Known& known = known_[session];
  if (known.turns == kTurns) {
    known.deleting = true;
    if (client.DeleteSession(IdOf(session)).ok()) known = {};
    return;
  }
  known.turning = true;
  const Turn turn = RunTurn(client, RequestOf(session, known.turns));
  if (!turn.status.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(turn.status)) << turn.status;
    return;
  }
  EXPECT_EQ(turn.ids, stories_[session][known.turns].ids) << IdOf(session) << " " << known.turns;
  EXPECT_EQ(turn.complete.session().position(), stories_[session][known.turns].position);
  known = {.turns = known.turns + 1};
}

void CrashTest::Work(const ServerProcess& server, int thread) {
  const auto client = server.Connect();
  for (int i = 0;; ++i) {
    const int session = thread + kClients * (i % (kSessions / kClients));
    Step(*client, session);
    if (known_[session].turning || known_[session].deleting) return;  // It was not answered.
  }
}

TEST_F(CrashTest, KilledAtAnyMoment) {
  const int64_t rounds = Setting("FERMATA_CRASH_ROUNDS", 200);
  int64_t turns_before = 0;
  for (int64_t round = 0; round < rounds && !HasFatalFailure(); ++round) {
    if (round % 8 == 7) {
      // A start that does not come to its end.
      ChildProcess starting("fermata-server", [&] {
        std::vector<std::string> flags = Flags();
        flags.insert(flags.end(), {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0"});
        return flags;
      }());
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000));
      starting.Signal(SIGKILL);
      starting.Wait();
    }
    ServerProcess server(Flags());
    {
      const auto client = server.Connect();
      Check(*client);
      if (HasFatalFailure()) FAIL() << "round " << round << "\n" << server.log();
    }
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) clients.emplace_back([&, i] { Work(server, i); });
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 250'000));
    server.Signal(SIGKILL);
    for (std::thread& client : clients) client.join();
    server.Wait();
    if (HasNonfatalFailure()) FAIL() << "round " << round << "\n" << server.log();
    for (const Known& known : known_) turns_before += known.turns;
  }
  EXPECT_GT(turns_before, rounds) << "too few turns to have shown anything";
}

}  // namespace
}  // namespace fermata::e2e
