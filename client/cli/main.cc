#include <cstdlib>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include <unistd.h>

#include "client/cli/arguments.h"
#include "client/cli/commands.h"

int main(int argc, char** argv) {
  using namespace fermata::cli;
  const auto parsed = ParseArguments(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* notice = std::get_if<Notice>(&parsed)) {
    (notice->exit_code == kExitOk ? std::cout : std::cerr) << notice->text;
    return notice->exit_code;
  }
  const Io io{std::cin,
              std::cout,
              std::cerr,
              isatty(STDIN_FILENO) == 1,
              isatty(STDOUT_FILENO) == 1,
              isatty(STDERR_FILENO) == 1};
  const int exit_code = Run(std::get<Invocation>(parsed), io);
  std::cout.flush();
  // gRPC's threads may still be giving back what the last call held: nothing global is torn down under
  // them.
  std::quick_exit(exit_code);
}
