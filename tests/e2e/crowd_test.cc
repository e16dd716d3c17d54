// A crowd: ten thousand sessions through memory for a hundred, from 64 clients at once. Each says what
// its own story says when it is told alone.
//
// FERMATA_CROWD_SESSIONS says how many.

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"
#include "tests/settings.h"

namespace fermata::e2e {
namespace {

constexpr int kClients = 64;
constexpr int kFit = 100;
constexpr int64_t kLongestRecord = 30'000;  // Set aside by each turn until it has committed.
constexpr char kDown[] = "fermata_session_moves_total{direction=\"down\",reason=\"pressure\"}";
constexpr char kUp[] = "fermata_session_moves_total{direction=\"up\",reason=\"turn\"}";

// The tokenizer of the model is bytes.
std::vector<int32_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

class CrowdTest : public testing::Test {
 protected:
  void SetUp() override { MakeSmallModel(model()); }
  std::string model() const { return (directory_ / "model").string(); }
  ServerProcess Serve() const {
    const int64_t state_bytes =
        ServerProcess({"--model_dir=" + model()}).Connect()->GetModel()->state_bytes();
    const int64_t memory = kFit * (state_bytes + 2048) + kClients * kLongestRecord;
    return ServerProcess({"--model_dir=" + model(), "--prefix_cache=0", "--log_level=warning",
                          "--session_tiers=memory:" + std::to_string(memory) +
                              ",disk:" + (directory_ / "sessions").string()});
  }

 private:
  TempDir directory_;
};

TEST_F(CrowdTest, EachTellsItsOwnStory) {
  const auto sessions = static_cast<int>(Setting("FERMATA_CROWD_SESSIONS", 10'000));
  const ServerProcess server = Serve();
  const auto tell = [&](int thread) {
    const auto client = server.Connect();
    std::mt19937 random(thread);
    std::vector<int> mine;
    for (int i = thread; i < sessions; i += kClients) mine.push_back(i);
    std::vector<std::vector<int32_t>> told(mine.size());
    for (const char* words : {" is my name", " again"}) {
      // In another order each time, so that the one used last is not always the next.
      std::vector<size_t> order(mine.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        const std::string text = std::to_string(mine[i]) + words;
        const auto ids = RunOk(*client, On("s" + std::to_string(mine[i]), Greedy(text, 3))).ids;
        told[i] = Joined(told[i], Bytes(text));
        EXPECT_EQ(ids, RunOk(*client, WithIds(Greedy("", 3), told[i])).ids) << text;
        told[i] = Joined(told[i], ids);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back(tell, i);
  for (std::thread& thread : threads) thread.join();

  const auto metrics = server.Metrics();
  const double in_memory = metrics.at("fermata_sessions{tier=\"memory\"}");
  EXPECT_EQ(in_memory + metrics.at("fermata_sessions{tier=\"disk\"}"), sessions);
  EXPECT_LT(in_memory, 3 * kFit);
  EXPECT_GT(metrics.at(kDown), sessions);
  EXPECT_GT(metrics.at(kUp), sessions / 2);
  EXPECT_EQ(metrics.at("fermata_session_evictions_total"), 0);
}

}  // namespace
}  // namespace fermata::e2e
