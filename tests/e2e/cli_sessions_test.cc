// What the `fermata` command does with sessions that branch, travel and rest on a disk.

#include <string>
#include <vector>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cli_runner.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

class CliSessionsTest : public CliTest {
 protected:
  // A greedy turn by the command.
  static std::string Go(const std::string& session, const std::string& prompt,
                        std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"generate", "--session", session,        "-n",      "6",
                                          "-t",       "0",         "--ignore-eos", "--create"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (!prompt.empty()) arguments.push_back(prompt);
    return Ok(arguments);
  }
};

TEST_F(CliSessionsTest, ForkRewindAndCheckpoints) {
  Ok({"sessions", "create", "c", "--checkpoints", "4"});
  const std::string one = Go("c", kPrompt);
  const std::string two = Go("c", "");
  const auto listed = Json({"sessions", "checkpoints", "c"});
  ASSERT_THAT(listed, testing::Not(IsEmpty()));
  EXPECT_EQ(listed.back().at("turns"), "1");
  EXPECT_THAT(Ok({"sessions", "checkpoints", "c"}), HasSubstr("1 turns"));
  EXPECT_THAT(Ok({"sessions", "fork", "c", "c-fork", "--turns", "1", "--label", "k=v"}),
              HasSubstr("forked from    c at position"));
  EXPECT_EQ(Go("c-fork", ""), two);
  EXPECT_THAT(Ok({"sessions", "rewind", "c"}), HasSubstr("turns          1"));
  EXPECT_EQ(Go("c", ""), two);
  const Result missing = Fermata({"sessions", "rewind", "c", "--turns", "99"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("CHECKPOINT_NOT_FOUND"));
  const Result stale = Fermata({"sessions", "delete", "c", "--expected-revision", "0"});
  EXPECT_EQ(stale.exit_code, 1);
  EXPECT_THAT(stale.err, HasSubstr("REVISION_MISMATCH"));
}

TEST_F(CliSessionsTest, TemplatesArePinned) {
  Go("persona", kPrompt);
  Ok({"sessions", "pin", "persona"});
  EXPECT_THAT(Ok({"sessions", "show", "persona"}), HasSubstr("pinned         yes"));
  EXPECT_THAT(Fermata({"sessions", "delete", "persona"}).err, HasSubstr("SESSION_PINNED"));
  Go("from-persona", "", {"--fork-from", "persona"});
  EXPECT_EQ(client().GetSession("from-persona")->parent_id(), "persona");
  Ok({"sessions", "unpin", "persona"});
  Ok({"sessions", "delete", "persona"});
}

TEST_F(CliSessionsTest, ExportAndImport) {
  Go("e", kPrompt);
  TempDir directory;
  const std::string file = directory / "e.snap";
  Ok({"sessions", "export", "e", "-o", file});
  const std::string piped = Ok({"sessions", "export", "e"});
  EXPECT_EQ(piped, ReadAll(file));
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  Ok({"sessions", "import", file, "--id", "e-2"});
  Ok({"sessions", "import", "--id", "e-3"}, piped);
  const std::string expected = Go("e", "");
  EXPECT_EQ(Go("e-2", ""), expected);
  EXPECT_EQ(Go("e-3", ""), expected);
  EXPECT_THAT(Fermata({"sessions", "import", file}).err, HasSubstr("SESSION_EXISTS"));
  Ok({"sessions", "import", file, "--replace"});
  EXPECT_EQ(Go("e", ""), expected);

  std::string altered = piped;
  altered[altered.size() / 2] ^= 1;
  const Result damaged = Fermata({"sessions", "import", "--id", "x"}, altered);
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("SNAPSHOT_DAMAGED"));
  EXPECT_EQ(Fermata({"sessions", "export", "nobody", "-o", file}).exit_code, 1);
  EXPECT_EQ(ReadAll(file), piped) << "a failed export took the place of a good file";
}

TEST_F(CliSessionsTest, AttachTakesUpATurn) {
  const std::vector<std::string> turn = {
      "generate", kPrompt, "-n", "40", "--seed", "3", "--request-id", "cli-r", "--ignore-eos"};
  const std::string text = Ok(turn);
  EXPECT_EQ(Ok(turn), text);
  EXPECT_EQ(Ok({"attach", "cli-r"}), text);
  const auto events = Json({"attach", "cli-r", "--from", "39"});
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].at("chunk").at("index"), 39);
  EXPECT_THAT(Fermata({"attach", "nothing"}).err, HasSubstr("REQUEST_NOT_FOUND"));
}

TEST(FsckTest, TellsDamage) {
  TempDir directory;
  const std::string path = directory / "sessions";
  const std::vector<std::string> flags = {"--session_tiers=memory:64MiB,disk:" + path,
                                          "--session_durability=disk"};
  {
    ServerProcess server(flags);
    const auto client = server.Connect();
    for (const std::string id : {"anna", "ben"}) RunOk(*client, On(id, Greedy(kPrompt, 3)));
    ChildProcess locked("fermata", {"fsck", path});
    EXPECT_EQ(locked.Wait(), 1);
    server.Signal(SIGTERM);
    ASSERT_EQ(server.Wait(), 0);
  }
  ChildProcess whole("fermata", {"fsck", path});
  EXPECT_EQ(whole.Wait(), 0) << whole.output() << whole.errors();
  EXPECT_THAT(whole.output(), HasSubstr("anna"));
  EXPECT_THAT(whole.output(), HasSubstr("2 whole snapshots of 2 sessions"));

  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.path().extension() != ".snap") continue;
    std::string bytes = ReadAll(entry.path());
    bytes[bytes.size() - 1000] ^= 1;
    WriteAll(entry.path(), bytes);
    break;
  }
  ChildProcess damaged("fermata", {"fsck", path, "--json"});
  EXPECT_EQ(damaged.Wait(), 1);
  std::vector<nlohmann::json> rows;
  std::istringstream lines(damaged.output());
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  ASSERT_THAT(rows, testing::Not(IsEmpty()));
  EXPECT_EQ(rows.back().at("total").at("bad"), 1);
  EXPECT_EQ(rows.back().at("total").at("sessions"), 1);

  // The server tells it too, and the other session is served.
  ServerProcess server(flags);
  const auto client = server.Connect();
  int whole_sessions = 0;
  for (const std::string id : {"anna", "ben"}) {
    v1::GenerateRequest request = On(id, Greedy("", 2));
    request.mutable_session()->set_create_if_missing(false);
    const absl::Status status = RunTurn(*client, request).status;
    if (status.ok()) {
      ++whole_sessions;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsNotFound(status)) << status;
    }
  }
  EXPECT_EQ(whole_sessions, 1);
}

}  // namespace
}  // namespace fermata::e2e
