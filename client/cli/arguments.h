#ifndef FERMATA_CLIENT_CLI_ARGUMENTS_H_
#define FERMATA_CLIENT_CLI_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/options.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/session.pb.h"

namespace fermata::cli {

// Flags of every subcommand.
struct CommonOptions {
  std::string server;
  bool json = false;
  absl::Duration deadline = absl::InfiniteDuration();
};

// Where a command's text comes from. Both unset: the command says what it does then.
struct TextSource {
  std::optional<std::string> argument;  // "-" is standard input.
  std::optional<std::string> file;      // "-" is standard input.
};

struct GenerateCommand {
  v1::GenerateRequest request;  // Without the text, which `prompt` tells.
  TextSource prompt;
  bool stats = false;
};
struct AttachCommand {
  v1::AttachRequest request;
  bool stats = false;
};
struct ChatCommand {
  v1::GenerateRequest turn;          // Of every line: session, sampling, time limit.
  std::string line_template = "{}";  // "{}" stands for the line.
};
struct ScoreCommand {
  v1::ScoreRequest request;  // Without the text, which `text` tells.
  TextSource text;
  std::string separator;  // Empty: the text is one record.
  int in_flight = 4;
  bool show_tokens = false;
};
struct TokenizeCommand {
  v1::TokenizeRequest request;
  TextSource text;
};
struct DetokenizeCommand {
  v1::DetokenizeRequest request;
};
struct ListSessionsCommand {
  std::map<std::string, std::string> labels;
};
struct ShowSessionCommand {
  std::string id;
};
struct CreateSessionCommand {
  v1::CreateSessionRequest request;
};
struct UpdateSessionCommand {
  v1::UpdateSessionRequest request;
};
struct DeleteSessionsCommand {
  std::vector<std::string> ids;
  v1::DeleteSessionRequest request;  // Without the id; what each must be like.
};
struct ForkSessionCommand {
  v1::ForkSessionRequest request;
};
struct RewindSessionCommand {
  v1::RewindSessionRequest request;
};
struct ListCheckpointsCommand {
  std::string id;
};
struct ExportSessionCommand {
  v1::ExportSessionRequest request;
  std::string output = "-";  // A file; "-" is standard output.
};
struct ImportSessionCommand {
  v1::ImportOptions options;
  std::string input = "-";  // A file; "-" is standard input.
};
struct PinSessionsCommand {
  std::vector<std::string> ids;
  bool pinned = true;
};
struct FsckCommand {
  std::string directory;
  bool set_aside = false;
};
struct ModelsCommand {};
struct InspectModelCommand {
  std::string directory;
};
struct VerifyModelCommand {
  std::string directory;
  int64_t tokens = 150;
  uint64_t seed = 1;
};
struct MakeModelCommand {
  std::string directory;
  std::string family = "rwkv7";
  std::string size = "0.1b";
  // Instead of what the size says.
  std::optional<int64_t> layers;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> vocab_size;
  std::string dtype = "bf16";
  uint64_t seed = 1;
};
struct BenchCommand {
  bench::Options options;
  std::string output;  // A file; empty: none.
  std::string commit;
};
struct HealthCommand {
  std::string service;
  bool wait = false;
};
struct VersionCommand {};

using Command =
    std::variant<GenerateCommand, AttachCommand, ChatCommand, ScoreCommand, TokenizeCommand,
                 DetokenizeCommand, ListSessionsCommand, ShowSessionCommand, CreateSessionCommand,
                 UpdateSessionCommand, DeleteSessionsCommand, ForkSessionCommand,
                 RewindSessionCommand, ListCheckpointsCommand, ExportSessionCommand,
                 ImportSessionCommand, PinSessionsCommand, FsckCommand, ModelsCommand,
                 InspectModelCommand, VerifyModelCommand, MakeModelCommand, BenchCommand,
                 HealthCommand, VersionCommand>;

struct Invocation {
  CommonOptions common;
  Command command;
};

// What to say instead of running a command.
struct Notice {
  int exit_code = 0;  // kExitOk for help that was asked for, else kExitUsage.
  std::string text;
};

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // A request failed, or a file could not be read.
inline constexpr int kExitUsage = 2;          // The command line makes no sense.
inline constexpr int kExitInterrupted = 130;  // Ctrl-C.

// Takes the command line apart. `arguments` are those after the program's name.
std::variant<Invocation, Notice> ParseArguments(const std::vector<std::string>& arguments);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_ARGUMENTS_H_
