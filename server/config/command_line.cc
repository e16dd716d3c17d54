#include "server/config/command_line.h"

#include <algorithm>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "engine/base/mapped_file.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Why a value did not parse. Abseil's `error` repeats value and name before the reason, and has
// none for the types that Abseil knows itself.
std::string Expectation(const absl::CommandLineFlag& flag, const std::string& error) {
  if (const size_t end = error.find("; "); end != std::string::npos) return error.substr(end + 2);
  if (flag.IsOfType<int>()) return "expected a whole number";
  if (flag.IsOfType<absl::Duration>()) return "expected a duration such as 500ms, 10s or 1h30m";
  return "not a valid value";
}

absl::Status SetFlag(std::string_view name, std::string_view value,
                     std::span<const FlagGroup> groups) {
  const bool known = std::ranges::any_of(groups, [name](const FlagGroup& group) {
    return std::ranges::find(group.flags, name) != group.flags.end();
  });
  absl::CommandLineFlag* flag = known ? absl::FindCommandLineFlag(Absl(name)) : nullptr;
  if (flag == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", Absl(name), ": there is no such flag (see --help)"));
  }
  std::string error;
  if (flag->ParseFrom(Absl(value), &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", Absl(name), ": ", Expectation(*flag, error), ", got '", Absl(value), "'"));
}

// One --name=value, taken apart.
struct SplitFlag {
  std::string_view name;
  std::string_view value;
  bool has_value = false;
};

absl::StatusOr<SplitFlag> Split(std::string_view argument) {
  if (!argument.starts_with("--") || argument.size() == 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Absl(argument), "' is not a flag, and no other argument is expected"));
  }
  argument.remove_prefix(2);
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return SplitFlag{.name = argument, .value = {}};
  return SplitFlag{argument.substr(0, equals), argument.substr(equals + 1), true};
}

absl::Status SetFromFile(const std::string& path, std::span<const FlagGroup> groups) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--flagfile: ", text.status().message()));
  }
  int number = 0;
  for (const absl::string_view raw : absl::StrSplit(*text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || line[0] == '#') continue;
    const auto at = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(path, " line ", number, ": ", why));
    };
    const absl::StatusOr<SplitFlag> flag = Split({line.data(), line.size()});
    if (!flag.ok()) return at(flag.status().message());
    if (!flag->has_value) return at("expected --name=value");
    const absl::Status set = SetFlag(flag->name, flag->value, groups);
    if (!set.ok()) return at(set.message());
  }
  return absl::OkStatus();
}

// `text` in lines of up to 92 characters, each behind `margin` spaces.
std::string Wrapped(const std::string& text, size_t margin) {
  std::string lines;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column == 0 || column + word.size() >= 92) {
      absl::StrAppend(&lines, lines.empty() ? "" : "\n", std::string(margin, ' '), word);
      column = margin + word.size();
    } else {
      absl::StrAppend(&lines, " ", word);
      column += 1 + word.size();
    }
  }
  return lines;
}

}  // namespace

absl::StatusOr<CommandLineWish> ParseCommandLine(std::span<const std::string> arguments,
                                                 std::span<const FlagGroup> groups) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    FERMATA_ASSIGN_OR_RETURN(SplitFlag flag, Split(arguments[i]));
    if (!flag.has_value && flag.name == "help") return CommandLineWish::kHelp;
    if (!flag.has_value && flag.name == "version") return CommandLineWish::kVersion;
    if (!flag.has_value) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", Absl(flag.name), ": has no value"));
      }
      flag.value = arguments[++i];
    }
    FERMATA_RETURN_IF_ERROR(flag.name == "flagfile" ? SetFromFile(std::string(flag.value), groups)
                                                    : SetFlag(flag.name, flag.value, groups));
  }
  return CommandLineWish::kRun;
}

std::string FlagsHelp(std::span<const FlagGroup> groups) {
  std::string help;
  for (const FlagGroup& group : groups) {
    absl::StrAppend(&help, "\n", Absl(group.title), ":\n");
    for (const std::string_view name : group.flags) {
      const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(Absl(name));
      const std::string fallback = flag->DefaultValue();
      absl::StrAppend(&help, "  --", Absl(name), fallback.empty() ? "" : "=", fallback, "\n",
                      Wrapped(flag->Help(), 6), "\n");
    }
  }
  return help;
}

}  // namespace fermata
