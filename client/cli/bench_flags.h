#ifndef FERMATA_CLIENT_CLI_BENCH_FLAGS_H_
#define FERMATA_CLIENT_CLI_BENCH_FLAGS_H_

#include <CLI/CLI.hpp>

#include "client/cli/arguments.h"

namespace fermata::cli {

// The flags of `fermata bench`. `command` must outlive the parse.
void AddBench(CLI::App* app, BenchCommand* command);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_BENCH_FLAGS_H_
