// The `fermata` command against a real server.

#include <cmath>
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
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kPrompt[] = "Once upon a time, there was a little";

TEST_F(CliTest, GenerateWritesTheTextAndNothingElse) {
  const Turn turn = RunOk(client(), Greedy(kPrompt, 40));
  const std::vector<std::string> flags = {"-n", "40", "-t", "0", "--ignore-eos"};
  const auto with = [&flags](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  };
  EXPECT_EQ(Ok(with({"generate", kPrompt})), turn.text);
  EXPECT_EQ(Ok(with({"generate"}), std::string(kPrompt) + "\n"), turn.text);
  TempDir directory;
  WriteAll(directory / "prompt", kPrompt);
  EXPECT_EQ(Ok(with({"generate", "--file", directory / "prompt"})), turn.text);
  std::string ids;
  for (const int32_t id : Tokenize(client(), kPrompt)) ids += std::to_string(id) + ",";
  EXPECT_EQ(Ok(with({"generate", "--token-ids", ids})), turn.text);
}

TEST_F(CliTest, GenerateResumes) {
  const Turn whole = RunOk(client(), Greedy(kPrompt, 30));
  const std::string first = Ok(
      {"generate", kPrompt, "--session", "cli", "--create", "-n", "10", "-t", "0", "--ignore-eos"});
  const std::string position = std::to_string(client().GetSession("cli")->position());
  const std::string second = Ok({"generate", "--session", "cli", "--expected-position", position,
                                 "-n", "20", "-t", "0", "--ignore-eos"});
  EXPECT_EQ(first + second, whole.text);
  const Result stale =
      Fermata({"generate", "--session", "cli", "--expected-position", position, "-n", "1"});
  EXPECT_EQ(stale.exit_code, 1);
  EXPECT_EQ(stale.out, "");
  EXPECT_THAT(stale.err, HasSubstr("POSITION_MISMATCH"));
}

TEST_F(CliTest, GenerateAsJson) {
  const Turn turn = RunOk(client(), Greedy(kPrompt, 12));
  const auto events =
      Json({"generate", kPrompt, "-n", "12", "-t", "0", "--ignore-eos", "--logprobs", "2",
            "--session", "json", "--create", "--request-id", "r7"});
  EXPECT_EQ(events.front().at("started").at("request_id"), "r7");
  EXPECT_EQ(events.back().at("complete").at("finish_reason"), "LENGTH");
  EXPECT_EQ(events.back().at("complete").at("session").at("id"), "json");
  std::string text;
  size_t logprobs = 0;
  for (size_t i = 1; i + 1 < events.size(); ++i) {
    text += events[i].at("chunk").at("text").get<std::string>();
    logprobs += events[i].at("chunk").at("logprobs").size();
  }
  EXPECT_EQ(text, turn.text);
  EXPECT_EQ(logprobs, 12u);

  const Result failed = Fermata({"generate", "x", "--session", "absent", "--json"});
  EXPECT_EQ(failed.exit_code, 1);
  const auto error = nlohmann::json::parse(failed.out).at("error");
  EXPECT_EQ(error.at("code"), "NOT_FOUND");
  EXPECT_EQ(error.at("reason"), "SESSION_NOT_FOUND");
}

TEST_F(CliTest, StatsShowStateBesideKvEquivalent) {
  const Result result = Fermata({"generate", kPrompt, "-n", "8", "--session", "stats", "--create",
                                 "--stats", "--ignore-eos", "--seed", "5"});
  EXPECT_THAT(result.err, HasSubstr("8 generated"));
  EXPECT_THAT(result.err, HasSubstr("seed 5"));
  EXPECT_THAT(result.err, HasSubstr("KV equivalent"));
  EXPECT_THAT(result.out, Not(HasSubstr("KV equivalent")));
}

TEST_F(CliTest, CtrlCEndsTheTurnAndTheSessionKeepsIt) {
  ChildProcess process("fermata", AtServer({"generate", kPrompt, "--session", "ctrl-c", "--create",
                                            "-n", "1000000", "--seed", "1", "--ignore-eos"}));
  ASSERT_TRUE(Eventually([&] { return process.output().size() > 20; }));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.errors(), HasSubstr("interrupted after"));
  EXPECT_THAT(process.errors(), HasSubstr("session ctrl-c is at position"));
  EXPECT_TRUE(server().MetricBecomes(kRunning, 0));

  // What the session holds begins with what was shown.
  const v1::Session session = *client().GetSession("ctrl-c");
  const auto prompt = static_cast<int64_t>(Tokenize(client(), kPrompt).size());
  const Turn uncut =
      RunOk(client(), Seeded(kPrompt, static_cast<int>(session.position() + 1 - prompt), 1));
  EXPECT_EQ(uncut.ids.back(), session.pending_token());
  EXPECT_THAT(uncut.text, ::testing::StartsWith(process.output()));
}

TEST_F(CliTest, ChatTakesTurnsOnOneSession) {
  const std::vector<std::string> lines = {"Tom had a", " Then he", ""};
  std::string expected;
  for (const std::string& line : lines) {
    expected += RunOk(client(), On("chat-model", Greedy(line + (line.empty() ? "" : "!"), 9))).text;
  }
  const Result result = Fermata(
      {"chat", "--session", "chat", "-n", "9", "-t", "0", "--ignore-eos", "--template", "{}!"},
      "Tom had a\n/state\n Then he\n/bogus\n\n/help\n/quit\nnever\n");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, expected);
  EXPECT_THAT(result.err, HasSubstr("KV equivalent"));
  EXPECT_THAT(result.err, HasSubstr("no command /bogus"));
  EXPECT_THAT(result.err, HasSubstr("/quit"));
  EXPECT_EQ(client().GetSession("chat")->turns(), 3);
}

TEST_F(CliTest, Sessions) {
  Ok({"sessions", "create", "cli-a", "--label", "shelf=cli", "--ttl", "1h"});
  Ok({"generate", kPrompt, "--session", "cli-a", "-n", "4", "--ignore-eos"});
  Ok({"sessions", "create", "cli-b", "--label", "shelf=cli"});
  EXPECT_THAT(Ok({"sessions", "list", "--label", "shelf=cli"}),
              MatchesRegex("cli-a [^\n]* 1 turns [^\n]*shelf=cli\ncli-b [^\n]*shelf=cli\n"));
  const auto listed = Json({"sessions", "list", "--label", "shelf=cli"});
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[0].at("id"), "cli-a");
  const std::string shown = Ok({"sessions", "show", "cli-a"});
  EXPECT_THAT(shown, HasSubstr("time to live   1h"));
  EXPECT_THAT(shown, HasSubstr("KV equivalent"));
  Ok({"sessions", "update", "cli-a", "--ttl", "0", "--no-labels"});
  EXPECT_THAT(Ok({"sessions", "show", "cli-a"}), Not(HasSubstr("labels")));
  Ok({"sessions", "delete", "cli-a", "cli-b"});
  const Result gone = Fermata({"sessions", "show", "cli-a"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("SESSION_NOT_FOUND"));
}

TEST_F(CliTest, TokensAndText) {
  std::string ids = Ok({"tokenize", kPrompt});
  ids.pop_back();
  EXPECT_EQ(Ok({"detokenize", ids}), kPrompt);
  EXPECT_EQ(Ok({"tokenize"}, kPrompt), ids + "\n");
}

TEST_F(CliTest, ScoreAddsUp) {
  const auto of_text = Json({"score", "--text", " a time", "--context", "Once upon", "--tokens"});
  ASSERT_THAT(of_text, SizeIs(2));
  double sum = 0;
  for (const auto& token : of_text[0].at("logprobs")) sum += token.at("logprob").get<double>();
  const auto& total = of_text[1].at("total");
  EXPECT_NEAR(total.at("total_logprob").get<double>(), sum, 1e-4);
  EXPECT_EQ(total.at("bytes"), 7);
  EXPECT_NEAR(total.at("bits_per_byte").get<double>(), -sum / std::log(2) / 7, 1e-4);
}

// By the definition that the model's card gives, from its parts.
TEST_F(CliTest, ScoreOfRecords) {
  const std::vector<std::string> records = {"Tom had a cat.\nIt ran.", "Once upon a time", "Hi."};
  std::string file;
  double sum = 0;
  for (const std::string& record : records) {
    file += record + "\n<|endoftext|>\n";
    v1::ScoreRequest request;
    request.set_parse_special(true);
    request.set_context_text("<|endoftext|>");
    request.set_text(record + "<|endoftext|>");
    sum += client().Score(request)->total_logprob();
  }
  TempDir directory;
  WriteAll(directory / "valid.txt", file);
  const auto objects =
      Json({"score", "--separator", "<|endoftext|>", directory / "valid.txt", "--in-flight", "3"});
  ASSERT_THAT(objects, SizeIs(1));
  EXPECT_EQ(objects[0].at("total").at("records"), 3);
  EXPECT_EQ(objects[0].at("total").at("bytes"), file.size());
  EXPECT_NEAR(objects[0].at("total").at("bits_per_byte").get<double>(),
              -sum / std::log(2) / static_cast<double>(file.size()), 1e-9);
}

TEST_F(CliTest, ModelsHealthVersion) {
  const v1::Model model = *client().GetModel();
  EXPECT_EQ(Json({"models"})[0].at("fingerprint"), model.fingerprint());
  EXPECT_THAT(Ok({"models"}), HasSubstr(model.family()));
  EXPECT_EQ(Ok({"health", "--wait", "--deadline", "30s"}), "SERVING\n");
  EXPECT_EQ(Fermata({"health", "--service", "no.such.Service"}).exit_code, 1);
  EXPECT_THAT(Ok({"version"}), HasSubstr("fermata "));
}

TEST_F(CliTest, ExitCodes) {
  EXPECT_EQ(Fermata({"generate", "x", "--top-p", "2"}).exit_code, 1);
  EXPECT_EQ(Fermata({"generate", "x", "--top-p", "much"}).exit_code, 2);
  EXPECT_EQ(Fermata({"frobnicate"}).exit_code, 2);
  EXPECT_EQ(Fermata({"generate", "--file", "/no/such/file"}).exit_code, 1);
  ChildProcess unreachable("fermata", {"models", "--server", "127.0.0.1:1"});
  EXPECT_EQ(unreachable.Wait(), 1);
  EXPECT_THAT(unreachable.errors(), HasSubstr("Is fermata-server running at 127.0.0.1:1?"));
}

}  // namespace
}  // namespace fermata::e2e
