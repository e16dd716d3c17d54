// Many threads at once: what the thread sanitizer watches.

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/scheduler/engine.h"
#include "gtest/gtest.h"
#include "tests/engine/scheduler/fixture.h"

namespace fermata {
namespace {

TEST(EngineStressTest, SessionsOfManyClientsNeverCross) {
  constexpr int kClients = 6;
  constexpr int kSessionsEach = 10;
  constexpr int kTurns = 4;
  const auto prompt = [](int session) { return "marker " + std::to_string(session * 7919); };

  // What each session says when nothing else runs.
  std::vector<std::vector<int32_t>> expected;
  TestEngine quiet({.max_running = 1});
  for (int session = 0; session < kClients * kSessionsEach; ++session) {
    expected.push_back(quiet.Run(SeededTurn(prompt(session), kTurns * 3, session))->tokens());
  }

  TestEngine engine({.max_running = 8, .prefill_tokens_per_step = 12});
  std::vector<std::vector<int32_t>> heard(kClients * kSessionsEach);
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int turn = 0; turn < kTurns; ++turn) {
        for (int i = 0; i < kSessionsEach; ++i) {
          const int session = client * kSessionsEach + i;
          const auto sink = engine.Run(SessionTurn("session-" + std::to_string(session),
                                                   turn == 0 ? prompt(session) : "", 3, session));
          const auto tokens = sink->tokens();
          heard[session].insert(heard[session].end(), tokens.begin(), tokens.end());
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(heard, expected);
}

TEST(EngineStressTest, EveryRequestEndsOnceWhateverIsCancelled) {
  constexpr int kClients = 4;
  constexpr int kRequestsEach = 40;
  std::atomic<int> ended = 0;
  TestEngine engine({.max_running = 4, .max_queued = 8, .prefill_tokens_per_step = 16});
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      std::mt19937 random(client);
      for (int i = 0; i < kRequestsEach; ++i) {
        auto sink = std::make_shared<RecordingSink>();
        TurnRequest request = SessionTurn("s" + std::to_string(random() % 6),
                                          std::string(1 + random() % 60, 'z'), random() % 20);
        const auto handle = engine.engine().Submit(std::move(request), sink);
        if (!handle.ok()) {
          ++ended;
          continue;
        }
        if (random() % 2 == 0) {
          sink->WaitForTokens(random() % 5);
          (*handle)->Cancel();
        }
        sink->Wait();
        ++ended;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ended, kClients * kRequestsEach);
  // A client hears of the end a moment before the engine has put the request away.
  const auto left = [&] { return engine.engine().load().running + engine.engine().load().queued; };
  for (int i = 0; i < 2000 && left() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(left(), 0);
}

}  // namespace
}  // namespace fermata
