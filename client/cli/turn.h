#ifndef FERMATA_CLIENT_CLI_TURN_H_
#define FERMATA_CLIENT_CLI_TURN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/client.h"
#include "fermata/v1/generation.pb.h"

namespace fermata::cli {

// What came of a turn.
struct TurnOutcome {
  absl::Status status;
  bool interrupted = false;  // By Ctrl-C; the status is then CANCELLED, unless the turn was faster.
  std::string session_id;    // Empty without a session.
  int64_t tokens = 0;        // That arrived.
  int64_t position = 0;      // At which a session that holds the tokens that arrived is at least.
  std::optional<v1::Complete> complete;
};

// Reads a turn to its end, printing its text (or, with --json, its events) as it comes. Ctrl-C cancels
// the call.
TurnOutcome ReadTurn(client::GenerateStream& stream, const CommonOptions& common,
                     Interrupts& interrupts, const Io& io);
// Runs a turn, and reads it like that.
TurnOutcome RunTurn(client::Client& client, const CommonOptions& common,
                    const v1::GenerateRequest& request, Interrupts& interrupts, const Io& io);

// Tells what there is to tell after a turn that generate or attach has read, and returns the exit code.
// `unnamed`: the session's id was the server's choice, or was not given.
struct Ending {
  bool stats = false;
  bool unnamed = false;
};
int ReportEnd(client::Client& client, const CommonOptions& common, const TurnOutcome& outcome,
              const Ending& ending, const Io& io);

// Tells where an interrupted turn stopped.
void ReportInterrupted(client::Client& client, const TurnOutcome& outcome, const Io& io);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_TURN_H_
