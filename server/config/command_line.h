#ifndef FERMATA_SERVER_CONFIG_COMMAND_LINE_H_
#define FERMATA_SERVER_CONFIG_COMMAND_LINE_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fermata {

// Abseil flags that belong together under one heading of the help.
struct FlagGroup {
  std::string_view title;
  std::span<const std::string_view> flags;
};

enum class CommandLineWish { kRun, kHelp, kVersion };

// Sets the flags of `groups` from `arguments` (without the program's name): --name=value or
// --name value, --flagfile=FILE for a file of such lines, --help, --version. Unlike Abseil's own
// parser it leaves the process alive, and knows no flags but those of `groups`.
//
// INVALID_ARGUMENT, naming the flag and, from a file, the file and line: an unknown flag, a value
// that does not parse, a flag without a value, or an argument that is no flag.
absl::StatusOr<CommandLineWish> ParseCommandLine(std::span<const std::string> arguments,
                                                 std::span<const FlagGroup> groups);

// Each flag with its help and default, group by group.
std::string FlagsHelp(std::span<const FlagGroup> groups);

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_COMMAND_LINE_H_
