#include "client/cli/arguments.h"

#include <cstdlib>

#include <google/protobuf/text_format.h>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace fermata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Invocation Parsed(const std::vector<std::string>& arguments) {
  auto parsed = ParseArguments(arguments);
  if (const auto* notice = std::get_if<Notice>(&parsed)) {
    ADD_FAILURE() << notice->text;
    return {};
  }
  return std::get<Invocation>(std::move(parsed));
}

template <typename T>
T Command(const std::vector<std::string>& arguments) {
  const Invocation invocation = Parsed(arguments);
  const T* command = std::get_if<T>(&invocation.command);
  if (command == nullptr) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return *command;
}

Notice Refused(const std::vector<std::string>& arguments) {
  auto parsed = ParseArguments(arguments);
  if (const auto* notice = std::get_if<Notice>(&parsed)) return *notice;
  ADD_FAILURE() << "not refused";
  return {};
}

// Compares all fields, presence included.
template <typename Message>
void ExpectText(const Message& message, const std::string& text) {
  Message expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, message)) << difference;
}

TEST(ArgumentsTest, GenerateWithNothingSetsNothing) {
  const auto command = Command<GenerateCommand>({"generate", "Once upon"});
  EXPECT_EQ(command.prompt.argument, "Once upon");
  EXPECT_FALSE(command.prompt.file.has_value());
  EXPECT_FALSE(command.stats);
  v1::GenerateRequest request = command.request;
  request.clear_sampling();
  ExpectText(request, "");
  ExpectText(command.request.sampling(), "");
}

TEST(ArgumentsTest, GenerateReachesEveryField) {
  const auto command = Command<GenerateCommand>({"generate",
                                                 "--token-ids",
                                                 "1,2,30",
                                                 "--request-id",
                                                 "r1",
                                                 "--priority",
                                                 "4",
                                                 "--tenant",
                                                 "t1",
                                                 "--parse-special",
                                                 "--session",
                                                 "s",
                                                 "--create",
                                                 "--expected-position",
                                                 "12",
                                                 "--ttl",
                                                 "90m",
                                                 "--time-limit",
                                                 "1500ms",
                                                 "--temperature",
                                                 "0",
                                                 "--top-k",
                                                 "5",
                                                 "--top-p",
                                                 "0.5",
                                                 "--min-p",
                                                 "0.25",
                                                 "--repetition-penalty",
                                                 "2",
                                                 "--presence-penalty",
                                                 "-1",
                                                 "--frequency-penalty",
                                                 "0.5",
                                                 "--penalty-window",
                                                 "64",
                                                 "--logit-bias",
                                                 "7=-100",
                                                 "--logit-bias",
                                                 "9=2.5",
                                                 "--seed",
                                                 "18446744073709551615",
                                                 "--max-new-tokens",
                                                 "0",
                                                 "--min-new-tokens",
                                                 "3",
                                                 "--stop-token",
                                                 "4",
                                                 "--stop-token",
                                                 "5",
                                                 "--ignore-eos",
                                                 "--stop",
                                                 "a b",
                                                 "--stop",
                                                 "[x]",
                                                 "--logprobs",
                                                 "0",
                                                 "--stats"});
  EXPECT_TRUE(command.stats);
  ExpectText(command.request, R"pb(
    priority: 4
    tenant: "t1"
    request_id: "r1"
    token_ids { ids: 1 ids: 2 ids: 30 }
    parse_special: true
    session {
      id: "s"
      create_if_missing: true
      expected_position: 12
      time_to_live { seconds: 5400 }
    }
    sampling {
      temperature: 0
      top_k: 5
      top_p: 0.5
      min_p: 0.25
      repetition_penalty: 2
      presence_penalty: -1
      frequency_penalty: 0.5
      penalty_window: 64
      logit_bias { key: 7 value: -100 }
      logit_bias { key: 9 value: 2.5 }
      seed: 18446744073709551615
      max_new_tokens: 0
      min_new_tokens: 3
      stop_token_ids: 4
      stop_token_ids: 5
      ignore_eos: true
      stop: "a b"
      stop: "[x]"
      logprobs: 0
    }
    time_limit { seconds: 1 nanos: 500000000 }
  )pb");
}

TEST(ArgumentsTest, TextIsNotTakenForFlagsOrCommands) {
  EXPECT_EQ(Command<GenerateCommand>({"generate", "chat"}).prompt.argument, "chat");
  EXPECT_EQ(Command<GenerateCommand>({"generate", "--", "--seed"}).prompt.argument, "--seed");
  // A flag that may be repeated takes one value each time.
  const auto command = Command<GenerateCommand>({"generate", "--stop", "x", "the prompt"});
  EXPECT_EQ(command.prompt.argument, "the prompt");
  EXPECT_THAT(command.request.sampling().stop(), ElementsAre("x"));
}

TEST(ArgumentsTest, CommonFlagsStandBeforeOrAfterTheCommand) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--server", "h:1", "--json", "--deadline", "2s", "models"},
           {"models", "--server", "h:1", "--json", "--deadline", "2s"}}) {
    const CommonOptions common = Parsed(arguments).common;
    EXPECT_EQ(common.server, "h:1");
    EXPECT_TRUE(common.json);
    EXPECT_EQ(common.deadline, absl::Seconds(2));
  }
}

TEST(ArgumentsTest, ServerComesFromFlagThenEnvironmentThenDefault) {
  ASSERT_EQ(unsetenv("FERMATA_SERVER"), 0);
  EXPECT_EQ(Parsed({"models"}).common.server, "127.0.0.1:7411");
  ASSERT_EQ(setenv("FERMATA_SERVER", "env:1", 1), 0);
  EXPECT_EQ(Parsed({"models"}).common.server, "env:1");
  EXPECT_EQ(Parsed({"models", "--server", "flag:1"}).common.server, "flag:1");
  EXPECT_EQ(Parsed({"--server", "flag:1", "models"}).common.server, "flag:1");
  ASSERT_EQ(unsetenv("FERMATA_SERVER"), 0);
}

TEST(ArgumentsTest, Chat) {
  const auto command = Command<ChatCommand>({"chat", "--session", "s", "--template", "U: {}"});
  EXPECT_EQ(command.line_template, "U: {}");
  EXPECT_EQ(command.turn.session().id(), "s");
  EXPECT_TRUE(command.turn.session().create_if_missing());
  EXPECT_EQ(Command<ChatCommand>({"chat"}).line_template, "{}");
}

TEST(ArgumentsTest, Score) {
  const auto command = Command<ScoreCommand>(
      {"score", "f.txt", "--context", "c", "--top-logprobs", "3", "--tokens", "--in-flight", "2",
       "--request-id", "r", "--parse-special", "--priority", "-3", "--tenant", "t"});
  EXPECT_EQ(command.text.file, "f.txt");
  EXPECT_TRUE(command.show_tokens);
  EXPECT_EQ(command.in_flight, 2);
  ExpectText(command.request,
             R"(request_id: "r" context_text: "c" parse_special: true top_logprobs: 3
                priority: -3 tenant: "t")");
  EXPECT_EQ(Command<ScoreCommand>({"score", "--separator", "<|endoftext|>", "-"}).separator,
            "<|endoftext|>");
}

TEST(ArgumentsTest, TokenizeAndDetokenize) {
  EXPECT_TRUE(Command<TokenizeCommand>({"tokenize", "--parse-special"}).request.parse_special());
  const auto command = Command<DetokenizeCommand>({"detokenize", "1", "2,3", "--keep-special"});
  ExpectText(command.request, "token_ids: [1, 2, 3] keep_special: true");
}

TEST(ArgumentsTest, Sessions) {
  EXPECT_THAT(Command<ListSessionsCommand>({"sessions", "list", "--label", "k=v=w"}).labels,
              ElementsAre(Pair("k", "v=w")));
  EXPECT_EQ(Command<ShowSessionCommand>({"sessions", "show", "s"}).id, "s");
  ExpectText(
      Command<CreateSessionCommand>({"sessions", "create", "s", "--label", "k=v", "--ttl", "1h"})
          .request,
      R"(id: "s" labels { key: "k" value: "v" } time_to_live { seconds: 3600 })");
  ExpectText(Command<CreateSessionCommand>({"sessions", "create"}).request, "");
  // Absent, empty and zero differ.
  ExpectText(Command<UpdateSessionCommand>({"sessions", "update", "s"}).request, R"(id: "s")");
  ExpectText(Command<UpdateSessionCommand>({"sessions", "update", "s", "--no-labels", "--ttl", "0"})
                 .request,
             R"(id: "s" labels {} time_to_live {})");
  ExpectText(Command<UpdateSessionCommand>({"sessions", "update", "s", "--label", "k=v"}).request,
             R"(id: "s" labels { values { key: "k" value: "v" } })");
  EXPECT_THAT(Command<DeleteSessionsCommand>({"sessions", "delete", "a", "b"}).ids,
              ElementsAre("a", "b"));
}

TEST(ArgumentsTest, SessionsThatAreKept) {
  const std::string kept = R"(durability: DISK max_checkpoints: 5)";
  ExpectText(Command<CreateSessionCommand>(
                 {"sessions", "create", "s", "--durability", "disk", "--checkpoints", "5"})
                 .request,
             R"(id: "s" )" + kept);
  ExpectText(Command<UpdateSessionCommand>({"sessions", "update", "s", "--durability", "disk",
                                            "--checkpoints", "5", "--expected-position", "3",
                                            "--expected-revision", "0"})
                 .request,
             R"(id: "s" expected_position: 3 expected_revision: 0 )" + kept);
  ExpectText(Command<DeleteSessionsCommand>(
                 {"sessions", "delete", "a", "--expected-revision", "18446744073709551615"})
                 .request,
             "expected_revision: 18446744073709551615");
  Refused({"sessions", "delete", "a", "--expected-revision", "-1"});
  Refused({"sessions", "create", "s", "--durability", "tape"});
}

TEST(ArgumentsTest, ForkAndRewind) {
  ExpectText(Command<ForkSessionCommand>({"sessions", "fork", "s"}).request, R"(id: "s")");
  ExpectText(Command<ForkSessionCommand>({"sessions", "fork", "s", "t", "--turns", "3", "--label",
                                          "k=v", "--ttl", "1m", "--durability", "memory",
                                          "--checkpoints", "0", "--expected-position", "7"})
                 .request,
             R"(id: "s" new_id: "t" from { turns: 3 } labels { key: "k" value: "v" }
                time_to_live { seconds: 60 } durability: MEMORY max_checkpoints: 0
                expected_position: 7)");
  ExpectText(Command<RewindSessionCommand>({"sessions", "rewind", "s"}).request,
             R"(id: "s" to { before_last_turn: true })");
  ExpectText(Command<RewindSessionCommand>(
                 {"sessions", "rewind", "s", "--position", "9", "--expected-revision", "2"})
                 .request,
             R"(id: "s" to { position: 9 } expected_revision: 2)");
  Refused({"sessions", "rewind", "s", "--turns", "1", "--position", "2"});
  Refused({"sessions", "fork"});
  EXPECT_EQ(Command<ListCheckpointsCommand>({"sessions", "checkpoints", "s"}).id, "s");
}

TEST(ArgumentsTest, ExportImportPinAndFsck) {
  const auto out =
      Command<ExportSessionCommand>({"sessions", "export", "s", "-o", "f", "--before-last-turn"});
  EXPECT_EQ(out.output, "f");
  ExpectText(out.request, R"(id: "s" from { before_last_turn: true })");
  EXPECT_EQ(Command<ExportSessionCommand>({"sessions", "export", "s"}).output, "-");
  const auto in =
      Command<ImportSessionCommand>({"sessions", "import", "f", "--id", "t", "--replace"});
  EXPECT_EQ(in.input, "f");
  ExpectText(in.options, R"(id: "t" replace: true)");
  EXPECT_EQ(Command<ImportSessionCommand>({"sessions", "import"}).input, "-");
  EXPECT_TRUE(Command<PinSessionsCommand>({"sessions", "pin", "a", "b"}).pinned);
  EXPECT_FALSE(Command<PinSessionsCommand>({"sessions", "unpin", "a"}).pinned);
  EXPECT_EQ(Command<FsckCommand>({"fsck", "d"}).directory, "d");
  EXPECT_TRUE(Command<FsckCommand>({"fsck", "d", "--set-aside"}).set_aside);
}

TEST(ArgumentsTest, TurnsThatAreTakenUp) {
  ExpectText(Command<AttachCommand>({"attach", "r", "--tenant", "t", "--from", "7"}).request,
             R"(request_id: "r" tenant: "t" from_index: 7)");
  Refused({"attach"});
  v1::GenerateRequest request =
      Command<GenerateCommand>({"generate", "--on-disconnect", "finish", "--request-id", "r",
                                "--durability", "disk", "--checkpoints", "2", "--fork-from", "t"})
          .request;
  request.clear_sampling();
  ExpectText(request, R"(request_id: "r" on_disconnect: ON_DISCONNECT_FINISH
                         session { durability: DISK max_checkpoints: 2 fork_from: "t"
                                   create_if_missing: true })");
  Refused({"generate", "--on-disconnect", "sulk"});
}

TEST(ArgumentsTest, SmallCommands) {
  const auto health = Command<HealthCommand>({"health", "--wait", "--service", "x"});
  EXPECT_TRUE(health.wait);
  EXPECT_EQ(health.service, "x");
  Command<ModelsCommand>({"models"});
  Command<VersionCommand>({"version"});
}

TEST(ArgumentsTest, MakeModel) {
  const auto plain = Command<MakeModelCommand>({"models", "make", "d"});
  EXPECT_EQ(plain.directory, "d");
  EXPECT_EQ(plain.family, "rwkv7");
  EXPECT_EQ(plain.size, "0.1b");
  EXPECT_EQ(plain.dtype, "bf16");
  EXPECT_FALSE(plain.layers || plain.hidden_size || plain.vocab_size);
  const auto all = Command<MakeModelCommand>(
      {"models", "make", "d", "--family", "mamba2", "--size", "1.5b", "--layers", "3",
       "--hidden-size", "64", "--vocab-size", "256", "--dtype", "f16", "--seed", "9"});
  EXPECT_EQ(all.family, "mamba2");
  EXPECT_EQ(all.size, "1.5b");
  EXPECT_EQ(all.layers, 3);
  EXPECT_EQ(all.hidden_size, 64);
  EXPECT_EQ(all.vocab_size, 256);
  EXPECT_EQ(all.dtype, "f16");
  EXPECT_EQ(all.seed, 9u);
}

TEST(ArgumentsTest, BenchKindsOfLoad) {
  using bench::LoadKind;
  const auto options = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "bench");
    return Command<BenchCommand>(arguments).options;
  };
  EXPECT_EQ(options({}).load, LoadKind::kClosedLoop);
  EXPECT_EQ(options({}).concurrency, 1);
  EXPECT_EQ(options({"-c", "64", "--think-time", "2s"}).concurrency, 64);
  EXPECT_EQ(options({"-c", "64", "--think-time", "2s"}).think_time, absl::Seconds(2));
  EXPECT_EQ(options({"--rate", "2.5"}).load, LoadKind::kPoisson);
  EXPECT_EQ(options({"--rate", "2.5"}).rate, 2.5);
  EXPECT_EQ(options({"--rate", "1", "--arrivals", "constant"}).load, LoadKind::kConstant);
  EXPECT_EQ(options({"--arrivals", "constant", "--rate", "1"}).load, LoadKind::kConstant);
  const auto trace = options({"--trace", "f.csv", "--trace-speed", "0.5"});
  EXPECT_EQ(trace.load, LoadKind::kTrace);
  EXPECT_EQ(trace.trace, "f.csv");
  EXPECT_EQ(trace.trace_speed, 0.5);
}

TEST(ArgumentsTest, BenchReachesEveryOption) {
  const auto command = Command<BenchCommand>({"bench",
                                              "--prompt-tokens",
                                              "3:9",
                                              "-n",
                                              "7",
                                              "--temperature",
                                              "0.5",
                                              "--top-k",
                                              "4",
                                              "--top-p",
                                              "0.9",
                                              "--sessions",
                                              "12",
                                              "--session-turns",
                                              "5",
                                              "--session-zipf",
                                              "1.5",
                                              "--open-sessions",
                                              "--keep-sessions",
                                              "--duration",
                                              "90s",
                                              "--requests",
                                              "1000",
                                              "--warmup",
                                              "10s",
                                              "--grace",
                                              "1s",
                                              "--seed",
                                              "6",
                                              "--connections",
                                              "3",
                                              "--slo-ttft",
                                              "200ms",
                                              "--slo-itl",
                                              "50ms",
                                              "--output",
                                              "o.json",
                                              "--commit",
                                              "abc",
                                              "--metrics-url",
                                              "off"});
  const bench::Options& o = command.options;
  EXPECT_EQ(o.prompt_tokens, (bench::TokenRange{3, 9}));
  EXPECT_EQ(o.generate_tokens, (bench::TokenRange{7, 7}));
  EXPECT_EQ(o.temperature, 0.5f);
  EXPECT_EQ(o.top_k, 4);
  EXPECT_EQ(o.top_p, 0.9f);
  EXPECT_EQ(o.sessions, 12);
  EXPECT_EQ(o.session_turns, 5);
  EXPECT_EQ(o.session_zipf, 1.5);
  EXPECT_TRUE(o.open_sessions);
  EXPECT_TRUE(o.keep_sessions);
  EXPECT_EQ(o.duration, absl::Seconds(90));
  EXPECT_EQ(o.requests, 1000);
  EXPECT_EQ(o.warmup, absl::Seconds(10));
  EXPECT_EQ(o.grace, absl::Seconds(1));
  EXPECT_EQ(o.seed, 6u);
  EXPECT_EQ(o.connections, 3);
  EXPECT_EQ(o.slo_ttft, absl::Milliseconds(200));
  EXPECT_EQ(o.slo_itl, absl::Milliseconds(50));
  EXPECT_EQ(o.metrics_url, "off");
  EXPECT_EQ(command.output, "o.json");
  EXPECT_EQ(command.commit, "abc");
  EXPECT_EQ(Command<BenchCommand>({"bench", "--prompts", "p.txt"}).options.prompts, "p.txt");
}

TEST(ArgumentsTest, MistakesAreNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"frobnicate"}, "frobnicate"},
      {{"sessions"}, "subcommand"},
      {{"sessions", "frobnicate"}, "frobnicate"},
      {{"sessions", "show"}, "id"},
      {{"sessions", "create", "--label", "novalue"}, "--label"},
      {{"generate", "--top-k", "many"}, "--top-k"},
      {{"generate", "--top-k", "99999999999"}, "--top-k"},
      {{"generate", "--seed", "-1"}, "--seed"},
      {{"generate", "--logit-bias", "7"}, "--logit-bias"},
      {{"generate", "--logit-bias", "x=1"}, "--logit-bias"},
      {{"generate", "--time-limit", "soon"}, "--time-limit"},
      {{"generate", "--time-limit", "-1s"}, "--time-limit"},
      {{"generate", "--token-ids", "1,x"}, "--token-ids"},
      {{"generate", "--no-such-flag"}, "--no-such-flag"},
      {{"generate", "a", "b"}, "b"},
      {{"generate", "a", "--file", "f"}, "--file"},
      {{"generate", "--file"}, "--file"},
      {{"generate", "a", "--token-ids", "1"}, "--token-ids"},
      {{"score", "f", "--text", "t"}, "--text"},
      {{"score", "f", "--separator", "s", "--context", "c"}, "--context"},
      {{"score", "f", "--in-flight", "0"}, "--in-flight"},
      {{"detokenize"}, "ids"},
      {{"detokenize", "one"}, "one"},
      {{"help", "frobnicate"}, "frobnicate"},
      {{"models", "make"}, "directory"},
      {{"models", "make", "d", "--family", "gpt"}, "--family"},
      {{"models", "make", "d", "--size", "7b"}, "--size"},
      {{"models", "make", "d", "--dtype", "int8"}, "--dtype"},
      {{"models", "make", "d", "--layers", "0"}, "--layers"},
      {{"bench", "-c", "0"}, "-c"},
      {{"bench", "-c", "1", "--rate", "1"}, "--rate"},
      {{"bench", "--trace", "f", "--rate", "1"}, "--trace"},
      {{"bench", "--trace", "f", "--prompts", "p"}, "--prompts"},
      {{"bench", "--trace", "f", "-n", "1"}, "--generate-tokens"},
      {{"bench", "--prompts", "p", "--prompt-tokens", "1"}, "--prompt-tokens"},
      {{"bench", "--prompt-tokens", "9:3"}, "--prompt-tokens"},
      {{"bench", "--prompt-tokens", "0:3"}, "--prompt-tokens"},
      {{"bench", "--rate", "0"}, "--rate"},
      {{"bench", "--rate", "fast"}, "--rate"},
      {{"bench", "--rate", "1", "--arrivals", "never"}, "--arrivals"},
      {{"bench", "--arrivals", "constant"}, "--rate"},
      {{"bench", "--rate", "1", "--think-time", "1s"}, "--think-time"},
      {{"bench", "--trace-speed", "2"}, "--trace"},
      {{"bench", "--session-turns", "2"}, "--sessions"},
      {{"bench", "--session-zipf", "1"}, "--sessions"},
      {{"bench", "--duration", "5s", "--warmup", "5s"}, "--warmup"},
      {{"bench", "stray"}, "stray"},
  };
  for (const auto& [arguments, name] : mistakes) {
    const Notice notice = Refused(arguments);
    EXPECT_EQ(notice.exit_code, 2) << notice.text;
    EXPECT_THAT(notice.text, HasSubstr(name));
  }
  EXPECT_EQ(Refused({}).exit_code, 2);
}

TEST(ArgumentsTest, HelpTeaches) {
  EXPECT_EQ(Refused({"help"}).exit_code, 0);
  EXPECT_THAT(Refused({"help"}).text, HasSubstr("Exit codes"));
  EXPECT_THAT(Refused({"--help"}).text, HasSubstr("Exit codes"));
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"help", "generate"}, {"generate", "--help"}, {"generate", "-h"}}) {
    const Notice notice = Refused(arguments);
    EXPECT_EQ(notice.exit_code, 0);
    EXPECT_THAT(notice.text, HasSubstr("fermata generate"));
    EXPECT_THAT(notice.text, HasSubstr("Examples:"));
    EXPECT_THAT(notice.text, HasSubstr("--expected-position"));
  }
  EXPECT_THAT(Refused({"help", "sessions", "list"}).text, HasSubstr("fermata sessions list"));
  EXPECT_EQ(Refused({"--version"}).exit_code, 0);
}

}  // namespace
}  // namespace fermata::cli
