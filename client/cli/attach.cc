#include "client/cli/commands.h"
#include "client/cli/turn.h"

namespace fermata::cli {

int RunAttach(const CommonOptions& common, const AttachCommand& command, const Io& io) {
  Interrupts interrupts;
  client::Client client(OptionsOf(common));
  const TurnOutcome outcome =
      ReadTurn(*client.StartAttach(command.request), common, interrupts, io);
  return ReportEnd(client, common, outcome, {.stats = command.stats, .unnamed = true}, io);
}

}  // namespace fermata::cli
