#include <optional>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/turn.h"

namespace fermata::cli {
namespace {

// The text to go on from; nullopt for none.
absl::StatusOr<std::optional<std::string>> ReadPrompt(const GenerateCommand& command,
                                                      const Io& io) {
  TextSource source = command.prompt;
  if (!source.argument && !source.file) {
    if (command.request.has_token_ids() || command.request.has_session()) return std::nullopt;
    if (io.in_is_terminal) {
      return absl::InvalidArgumentError(
          "no prompt: give PROMPT, --file or --token-ids, or --session to go on with (see `fermata "
          "help generate`)");
    }
    source.file = "-";
  }
  absl::StatusOr<std::optional<std::string>> text = ReadText(source, io.in);
  const bool typed = source.argument && *source.argument != "-";
  if (text.ok() && !typed && (*text)->ends_with('\n')) (*text)->pop_back();
  return text;
}

}  // namespace

int RunGenerate(const CommonOptions& common, const GenerateCommand& command, const Io& io) {
  absl::StatusOr<std::optional<std::string>> text = ReadPrompt(command, io);
  if (!text.ok()) {
    io.err << "fermata: " << text.status().message() << "\n";
    return absl::IsInvalidArgument(text.status()) ? kExitUsage : kExitFailed;
  }
  v1::GenerateRequest request = command.request;
  if (*text) request.set_text(**text);

  Interrupts interrupts;
  client::Client client(OptionsOf(common));
  const TurnOutcome outcome = RunTurn(client, common, request, interrupts, io);
  if (outcome.interrupted && request.on_disconnect() == v1::ON_DISCONNECT_FINISH) {
    io.err << "fermata: the turn runs on: fermata attach " << request.request_id() << "\n";
    return kExitInterrupted;
  }
  return ReportEnd(client, common, outcome,
                   {.stats = command.stats, .unnamed = request.session().id().empty()}, io);
}

}  // namespace fermata::cli
