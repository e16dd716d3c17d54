#ifndef FERMATA_CLIENT_CLI_SESSION_ARGUMENTS_H_
#define FERMATA_CLIENT_CLI_SESSION_ARGUMENTS_H_

#include <CLI/CLI.hpp>

#include "client/cli/leaves.h"

namespace fermata::cli {

// Adds `sessions` with all its subcommands to `app`.
void AddSessionCommands(CLI::App* app, const Leaves& leaves);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_SESSION_ARGUMENTS_H_
