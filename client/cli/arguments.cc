#include "client/cli/arguments.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/bench_flags.h"
#include "client/cli/flags.h"
#include "client/cli/help.h"
#include "client/cli/leaves.h"
#include "client/cli/session_arguments.h"
#include "client/client.h"
#include "client/make/families.h"

namespace fermata::cli {
namespace {

void AddTextSource(CLI::App* app, const std::string& name, const std::string& description,
                   TextSource* source) {
  auto* argument = app->add_option(name, source->argument, description)->type_name("");
  app->add_option("--file", source->file, "Read the text from this file; - is standard input")
      ->type_name("FILE")
      ->excludes(argument);
}

template <typename Row>
std::vector<std::string> Names(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

// `command` must outlive the parse.
void AddMakeModel(CLI::App* app, MakeModelCommand* command) {
  constexpr int64_t kMaxSize = int64_t{1} << 24;
  const auto word = [app](const std::string& name, std::string* value, const std::string& what,
                          const std::vector<std::string>& words) {
    app->add_option(name, *value,
                    absl::StrCat(what, ": ", absl::StrJoin(words, ", "), "; default ", *value))
        ->type_name("NAME")
        ->check(CLI::IsMember(words).description(""));
  };
  const auto number = [app](const std::string& name, std::optional<int64_t>* value,
                            const std::string& what) {
    app->add_option(name, *value, what)->type_name("N")->check(CLI::Range(int64_t{1}, kMaxSize));
  };
  app->add_option("directory", command->directory, "Where to put it; made when it is missing")
      ->type_name("")
      ->required();
  word("--family", &command->family, "The kind of model", Names(make::Families()));
  word("--size", &command->size, "A published size", Names(make::Presets()));
  number("--layers", &command->layers, "Layers, instead of what the size says");
  number("--hidden-size", &command->hidden_size, "Width, instead of what the size says");
  number("--vocab-size", &command->vocab_size, "Tokens, instead of 65536; 256 is a model of bytes");
  word("--dtype", &command->dtype, "How the weights are stored", {"f32", "bf16", "f16"});
  app->add_option("--seed", command->seed, "What the weights are drawn from; default 1")
      ->type_name("N");
}

// Builds the parser. Every subcommand fills a command of its own, which outlives the parse.
class Parser {
 public:
  Parser() : app_(kSummary, "fermata") {
    const char* server = std::getenv("FERMATA_SERVER");
    common_.server = server != nullptr && *server != '\0' ? server : client::kDefaultAddress;
    app_.footer(kFooter);
    app_.set_version_flag("--version", "fermata " FERMATA_VERSION);
    leaves_.AddCommon(&app_);
    AddGenerate();
    AddAttach();
    AddChat();
    AddScore();
    AddTokenize();
    AddDetokenize();
    AddSessionCommands(&app_, leaves_);
    AddModels();
    AddHealth();
    {
      auto [app, command] =
          leaves_.Add<BenchCommand>(&app_, "bench", "Load a server, and measure it", kBenchFooter);
      AddBench(app, command.get());
    }
    {
      auto [app, command] = leaves_.Add<FsckCommand>(
          &app_, "fsck", "Verify a directory of sessions (needs no server)", kFsckFooter);
      app->add_option("directory", command->directory, "The directory of the disk tier")
          ->type_name("")
          ->required();
      app->add_flag("--set-aside", command->set_aside,
                    "Move what is damaged to lost+found, instead of telling only");
    }
    leaves_.Add<VersionCommand>(&app_, "version", "Print the version of this command", "");
    help_ = app_.add_subcommand("help", "Explain a command: fermata help generate");
    help_->add_option("command", help_path_, "The command, for example: sessions list");
    app_.require_subcommand(1);
  }

  std::variant<Invocation, Notice> Parse(std::vector<std::string> arguments) {
    if (arguments.empty()) return Notice{kExitUsage, app_.help()};
    std::reverse(arguments.begin(), arguments.end());  // As CLI11 takes them.
    try {
      app_.parse(arguments);
    } catch (const CLI::RequiredError& error) {
      // CLI11 misses the subcommand before it sees that there is a word in its place.
      const std::vector<std::string> rest = app_.remaining(true);
      return Notice{kExitUsage, rest.empty() ? absl::StrCat("fermata: ", error.what(), "\n")
                                             : absl::StrCat("fermata: no command ", rest.front(),
                                                            "; `fermata help` lists them\n")};
    } catch (const CLI::ParseError& error) {
      std::ostringstream text;
      const int code = app_.exit(error, text, text);
      return code == 0 ? Notice{kExitOk, text.str()}
                       : Notice{kExitUsage, absl::StrCat("fermata: ", text.str())};
    }
    if (help_->parsed()) return Help();
    return Invocation{std::move(common_), chosen_()};
  }

 private:
  Notice Help() {
    const CLI::App* app = &app_;
    std::string name = app_.get_name();
    for (const std::string& part : help_path_) {
      const auto subs =
          app->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == part; });
      if (subs.empty()) return {kExitUsage, absl::StrCat("fermata: no command ", part, "\n")};
      app = subs.front();
      absl::StrAppend(&name, " ", part);
    }
    // Not app->help(), which would describe the subcommand that was parsed: this one.
    return {kExitOk, app->get_formatter()->make_help(app, name, CLI::AppFormatMode::Normal)};
  }

  void AddGenerate() {
    auto [app, command] =
        leaves_.Add<GenerateCommand>(&app_, "generate", "Write on from a prompt", kGenerateFooter);
    AddTextSource(app, "prompt", "The text to go on from; - reads standard input",
                  &command->prompt);
    AddText(app, "--token-ids", "IDS", "The prompt as token ids, with commas",
            [c = command](const std::string& ids) {
              ParseTokenIds("--token-ids", ids, c->request.mutable_token_ids()->mutable_ids());
            });
    app->get_option("--token-ids")->excludes("prompt")->excludes("--file");
    app->add_flag_function(
        "--create",
        [c = command](int64_t) { c->request.mutable_session()->set_create_if_missing(true); },
        "Make the session when it is missing; without --session the server names it");
    app->add_option_function<int64_t>(
           "--expected-position",
           [c = command](int64_t position) {
             c->request.mutable_session()->set_expected_position(position);
           },
           "Run only if the session is at this position")
        ->type_name("N");
    app->add_flag("--stats", command->stats, "Print counts, times and the session's size after");
    AddTurn(app, &command->request);
  }

  void AddAttach() {
    auto [app, command] = leaves_.Add<AttachCommand>(
        &app_, "attach", "Take up a turn whose stream was lost", kAttachFooter);
    AddText(app, "request-id", "", "The turn's --request-id",
            [c = command](const std::string& id) { c->request.set_request_id(id); });
    app->get_option("request-id")->required();
    AddText(app, "--tenant", "NAME", "The turn's --tenant",
            [c = command](const std::string& tenant) { c->request.set_tenant(tenant); });
    app->add_option_function<int32_t>(
           "--from", [c = command](int32_t index) { c->request.set_from_index(index); },
           "Begin with this token of the answer; default 0, the first")
        ->type_name("N");
    app->add_flag("--stats", command->stats, "Print counts, times and the session's size after");
  }

  void AddChat() {
    auto [app, command] = leaves_.Add<ChatCommand>(
        &app_, "chat", "Take turns with the model, line by line", kChatFooter);
    app->add_option("--template", command->line_template,
                    "What is sent for a line, which {} stands for; default {}")
        ->type_name("TEXT");
    command->turn.mutable_session()->set_create_if_missing(true);
    AddTurn(app, &command->turn);
  }

  void AddScore() {
    auto [app, command] = leaves_.Add<ScoreCommand>(
        &app_, "score", "Log-probabilities that the model gives to a text", kScoreFooter);
    app->add_option("file", command->text.file, "The file to score; - is standard input")
        ->type_name("");
    app->add_option("--text", command->text.argument, "Score this text instead of a file")
        ->type_name("TEXT")
        ->excludes("file");
    AddText(app, "--context", "TEXT", "Consumed first, and not scored",
            [c = command](const std::string& text) { c->request.set_context_text(text); });
    app->add_option("--separator", command->separator,
                    "Split into records at lines that hold only this (see below)")
        ->type_name("TEXT")
        ->excludes("--context");
    app->add_flag_function(
        "--parse-special", [c = command](int64_t) { c->request.set_parse_special(true); },
        "Text that spells a special token becomes that token");
    app->add_flag("--tokens", command->show_tokens, "Print each token's log-probability too");
    app->add_option_function<int32_t>(
           "--top-logprobs", [c = command](int32_t n) { c->request.set_top_logprobs(n); },
           "Tell the N most likely tokens at each place (shown by --tokens --json)")
        ->type_name("N");
    app->add_option("--in-flight", command->in_flight, "Records that are scored at once; default 4")
        ->type_name("N")
        ->check(CLI::Range(1, 64));
    AddOrigin(app, &command->request);
  }

  void AddTokenize() {
    auto [app, command] =
        leaves_.Add<TokenizeCommand>(&app_, "tokenize", "Text to token ids", kTokenizeFooter);
    AddTextSource(app, "text", "The text; without one, standard input", &command->text);
    app->add_flag_function(
        "--parse-special", [c = command](int64_t) { c->request.set_parse_special(true); },
        "Text that spells a special token becomes that token");
  }

  void AddDetokenize() {
    auto [app, command] =
        leaves_.Add<DetokenizeCommand>(&app_, "detokenize", "Token ids to text", kDetokenizeFooter);
    app->add_option_function<std::vector<std::string>>(
           "ids",
           [c = command](const std::vector<std::string>& parts) {
             for (const std::string& part : parts) {
               ParseTokenIds("ids", part, c->request.mutable_token_ids());
             }
           },
           "Token ids, with spaces or commas")
        ->type_name("")
        ->required();
    app->add_flag_function(
        "--keep-special", [c = command](int64_t) { c->request.set_keep_special(true); },
        "Spell special tokens out");
  }

  void AddModels();
  void AddHealth() {
    auto [app, command] = leaves_.Add<HealthCommand>(
        &app_, "health", "Ask whether the server is ready", kHealthFooter);
    app->add_option("--service", command->service, "One service, such as fermata.v1.Generation")
        ->type_name("NAME");
    app->add_flag("--wait", command->wait, "Wait until it is, up to --deadline");
  }

  CommonOptions common_;
  std::function<Command()> chosen_;
  const Leaves leaves_{&common_, &chosen_};
  std::vector<std::string> help_path_;
  CLI::App app_;
  CLI::App* help_ = nullptr;
};

void Parser::AddModels() {
  CLI::App* models = app_.add_subcommand("models", "Tell about a model: the server's, or a file's");
  models->footer(kModelsFooter);
  models->final_callback([this, models] {
    if (models->get_subcommands().empty()) chosen_ = [] { return Command(ModelsCommand{}); };
  });
  leaves_.AddCommon(models);
  {
    auto [app, command] = leaves_.Add<InspectModelCommand>(
        models, "inspect", "Load a model, and tell what it is (needs no server)", "");
    app->add_option("directory", command->directory, "The model's directory, or its one file")
        ->type_name("")
        ->required();
  }
  {
    auto [app, command] = leaves_.Add<VerifyModelCommand>(
        models, "verify", "Load a model, and check that it computes (needs no server)",
        kVerifyModelFooter);
    app->add_option("directory", command->directory, "The model's directory, or its one file")
        ->type_name("")
        ->required();
    app->add_option("--tokens", command->tokens, "Random tokens to compare forms on; default 150")
        ->type_name("N")
        ->check(CLI::Range(int64_t{1}, int64_t{4096}));
    app->add_option("--seed", command->seed, "What they are drawn from; default 1")->type_name("N");
  }
  {
    auto [app, command] = leaves_.Add<MakeModelCommand>(
        models, "make", "Make a model of random weights, for benchmarks (needs no server)",
        kMakeModelFooter);
    AddMakeModel(app, command.get());
  }
}

}  // namespace

std::variant<Invocation, Notice> ParseArguments(const std::vector<std::string>& arguments) {
  return Parser().Parse(arguments);
}

}  // namespace fermata::cli
