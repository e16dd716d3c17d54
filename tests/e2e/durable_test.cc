// Sessions that outlive the process: a disk below memory, restarts, and more sessions than memory holds.

#include <map>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";
constexpr char kMemorySessions[] = "fermata_sessions{tier=\"memory\"}";
constexpr char kDiskSessions[] = "fermata_sessions{tier=\"disk\"}";

class DurableTest : public testing::Test {
 protected:
  // Flags of a server on this test's directory.
  std::vector<std::string> Disk(const std::string& memory,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = {"--session_tiers=memory:" + memory + ",disk:" + path()};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::string path() const { return (directory_ / "sessions").string(); }

 private:
  TempDir directory_;
};

TEST_F(DurableTest, SessionsGoOnAfterARestartAsIfThereHadBeenNone) {
  std::map<std::string, v1::GenerateRequest> requests = {{"greedy", Greedy(kPrompt, 12)},
                                                         {"seeded", Seeded(kPrompt, 12, 7)}};
  v1::SamplingParams& penalised =
      *(requests["penalised"] = Seeded(kPrompt, 12, 7)).mutable_sampling();
  penalised.set_frequency_penalty(0.5);
  penalised.set_repetition_penalty(1.2f);
  std::map<std::string, std::vector<int32_t>> ids;
  std::map<std::string, std::string> shown;
  {
    ServerProcess server(Disk("64MiB", {"--session_checkpoints=3"}));
    const auto client = server.Connect();
    for (const auto& [id, request] : requests) ids[id] = RunOk(*client, On(id, request)).ids;
    for (const auto& [id, request] : requests) shown[id] = client->GetSession(id)->DebugString();
    server.Signal(SIGTERM);
    ASSERT_EQ(server.Wait(), 0) << server.log();
    EXPECT_THAT(server.log(), HasSubstr("event=sessions_flushed written=3"));
  }
  ServerProcess server(Disk("64MiB", {"--session_checkpoints=3"}));
  const auto client = server.Connect();
  EXPECT_THAT(*client->ListAllSessions(), SizeIs(3));
  EXPECT_EQ(server.Metric(kDiskSessions), 3);
  for (const auto& [id, request] : requests) {
    EXPECT_EQ(client->GetSession(id)->DebugString(), shown[id]);
    v1::GenerateRequest rest = request;
    rest.clear_prompt();
    const std::vector<int32_t> joined = Joined(ids[id], RunOk(*client, On(id, rest)).ids);
    v1::GenerateRequest whole = request;
    whole.mutable_sampling()->set_max_new_tokens(24);
    EXPECT_EQ(joined, RunOk(*client, whole).ids) << id;
  }
  EXPECT_EQ(server.Metric("fermata_session_moves_total{direction=\"up\",reason=\"turn\"}"), 3);
  EXPECT_EQ(server.Metric("fermata_session_restore_seconds_count{tier=\"disk\"}"), 3);
}

TEST_F(DurableTest, ACommitToDiskOutlivesAKill) {
  std::vector<int32_t> first;
  {
    ServerProcess server(Disk("64MiB"));
    const auto client = server.Connect();
    v1::GenerateRequest request = On("kept", Greedy(kPrompt, 10));
    request.mutable_session()->set_durability(v1::DISK);
    first = RunOk(*client, request).ids;
    EXPECT_EQ(client->GetSession("kept")->durability(), v1::DISK);
    EXPECT_EQ(server.Metric("fermata_session_persist_commits_sum"), 1);
    server.Signal(SIGKILL);
    server.Wait();
  }
  ServerProcess server(Disk("64MiB"));
  const auto client = server.Connect();
  const auto rest = RunOk(*client, On("kept", Greedy("", 10))).ids;
  EXPECT_EQ(Joined(first, rest), RunOk(*client, Greedy(kPrompt, 20)).ids);
}

TEST_F(DurableTest, AServerThatIsToldSoMakesEveryTurnDurable) {
  {
    ServerProcess server(Disk("64MiB", {"--session_durability=disk"}));
    const auto client = server.Connect();
    RunOk(*client, On("kept", Greedy(kPrompt, 3)));
    v1::CreateSessionRequest create;
    create.set_id("in-memory");
    create.set_durability(v1::MEMORY);
    ASSERT_TRUE(client->CreateSession(create).ok());
    server.Signal(SIGKILL);
    server.Wait();
  }
  ServerProcess server(Disk("64MiB", {"--session_durability=disk"}));
  const auto sessions = server.Connect()->ListAllSessions();
  ASSERT_THAT(*sessions, SizeIs(1));
  EXPECT_EQ(sessions->front().id(), "kept");
  EXPECT_EQ(sessions->front().turns(), 1);
}

TEST_F(DurableTest, TenTimesMoreSessionsThanMemoryHolds) {
  constexpr int kThreads = 6;
  constexpr int kFit = 12;
  constexpr int kSessions = 10 * kFit;
  const int64_t state_bytes = ServerProcess().Connect()->GetModel()->state_bytes();
  ServerProcess server(
      Disk(std::to_string(kFit * (state_bytes + 4096)), {"--max_running=4", "--prefix_cache=0"}));
  std::vector<std::vector<int32_t>> sequences(kSessions);
  const auto work = [&](int thread) {
    const auto client = server.Connect();
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = thread; i < kSessions; i += kThreads) {
        const std::string words = " Marker" + std::to_string(i) + (turn == 1 ? " said" : " ran");
        const auto prompt = Tokenize(*client, words);
        const auto ids = RunOk(*client, On("s" + std::to_string(i), Greedy(words, 3))).ids;
        // What came before is what this session's turn went on from, and no other's.
        sequences[i] = Joined(sequences[i], prompt);
        if (turn == 2) {
          EXPECT_EQ(ids, RunOk(*client, WithIds(Greedy("", 3), sequences[i])).ids) << i;
        }
        sequences[i] = Joined(sequences[i], ids);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();

  const auto client = server.Connect();
  EXPECT_THAT(*client->ListAllSessions(), SizeIs(kSessions));
  const auto metrics = server.Metrics();
  EXPECT_EQ(metrics.at(kMemorySessions) + metrics.at(kDiskSessions), kSessions);
  EXPECT_LE(metrics.at(kMemorySessions), kFit);
  EXPECT_GT(metrics.at("fermata_session_moves_total{direction=\"down\",reason=\"pressure\"}"),
            kSessions);
  EXPECT_GT(metrics.at("fermata_session_moves_total{direction=\"up\",reason=\"turn\"}"), kSessions);
  EXPECT_EQ(metrics.at("fermata_session_evictions_total"), 0);
  EXPECT_LE(metrics.at("fermata_session_bytes{tier=\"memory\"}"),
            metrics.at("fermata_session_limit_bytes{tier=\"memory\"}"));
}

TEST_F(DurableTest, WhatIsDeletedStaysDeleted) {
  {
    ServerProcess server(Disk("64MiB", {"--session_durability=disk"}));
    const auto client = server.Connect();
    for (const std::string id : {"a", "b"}) RunOk(*client, On(id, Greedy(kPrompt, 3)));
    ASSERT_TRUE(client->DeleteSession("a").ok());
    server.Signal(SIGKILL);
    server.Wait();
  }
  ServerProcess server(Disk("64MiB"));
  const auto sessions = server.Connect()->ListAllSessions();
  ASSERT_THAT(*sessions, SizeIs(1));
  EXPECT_EQ(sessions->front().id(), "b");
}

TEST_F(DurableTest, ADirectoryIsOneServersAtATime) {
  ServerProcess first(Disk("64MiB"));
  ChildProcess second("fermata-server", {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                         Disk("64MiB").front()});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.errors(), HasSubstr(path()));
  RunOk(*first.Connect(), On("s", Greedy(kPrompt, 3)));
}

TEST_F(DurableTest, SessionsOfOtherWeightsAreRefusedAtTheStart) {
  {
    ServerProcess server(Disk("64MiB", {"--session_durability=disk"}));
    RunOk(*server.Connect(), On("s", Greedy(kPrompt, 3)));
    server.Signal(SIGTERM);
    ASSERT_EQ(server.Wait(), 0);
  }
  ChildProcess other("fermata-server", {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                        "--weights=int8", Disk("64MiB").front()});
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.errors(), HasSubstr("int8"));
  ServerProcess server(Disk("64MiB"));
  EXPECT_THAT(*server.Connect()->ListAllSessions(), SizeIs(1));
}

TEST_F(DurableTest, WhatDoesNotBelongThereIsToldAndLeftInPeace) {
  {
    ServerProcess server(Disk("64MiB", {"--session_durability=disk"}));
    RunOk(*server.Connect(), On("s", Greedy(kPrompt, 3)));
    server.Signal(SIGKILL);
    server.Wait();
  }
  WriteAll(std::filesystem::path(path()) / "notes.txt", "not a snapshot");
  ServerProcess server(Disk("64MiB"));
  EXPECT_THAT(server.log(), HasSubstr("session_disk_remark"));
  EXPECT_THAT(server.log(), HasSubstr("notes.txt"));
  bool kept = false;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
    if (entry.is_regular_file() && ReadAll(entry.path()) == "not a snapshot") kept = true;
  }
  EXPECT_TRUE(kept);
  EXPECT_THAT(*server.Connect()->ListAllSessions(), SizeIs(1));
}

TEST_F(DurableTest, AQuotaIsALimitWithAClearError) {
  const int64_t state_bytes = ServerProcess().Connect()->GetModel()->state_bytes();
  const std::string tiers = Disk("64MiB").front() + "?quota=" + std::to_string(4 * state_bytes);
  ServerProcess server({tiers, "--session_durability=disk"});
  const auto client = server.Connect();
  absl::Status status;
  int kept = 0;
  for (; kept < 20 && status.ok(); ++kept) {
    status = RunTurn(*client, On("s" + std::to_string(kept), Greedy(kPrompt, 2))).status;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(Reason(status), "DISK_FULL");
  const auto sessions = client->ListAllSessions();
  EXPECT_THAT(*sessions, SizeIs(kept - 1));
  // A deletion makes room again.
  ASSERT_TRUE(client->DeleteSession("s0").ok());
  EXPECT_TRUE(
      Eventually([&] { return RunTurn(*client, On("new", Greedy(kPrompt, 2))).status.ok(); }));
}

}  // namespace
}  // namespace fermata::e2e
