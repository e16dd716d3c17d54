// fermata-server: serves one model over gRPC and HTTP, and keeps its sessions.

#include <iostream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/config/command_line.h"
#include "server/config/flags.h"
#include "server/observe/build_info.h"
#include "server/observe/logging.h"
#include "server/openmp_waiting.h"
#include "server/serve.h"
#include "server/signals.h"

namespace {

constexpr int kBadFlags = 2;
constexpr int kCanNotServe = 1;

constexpr char kIntroduction[] =
    "fermata-server streams text from a linear-attention model over gRPC and HTTP, and keeps\n"
    "each conversation as one fixed-size state to go on from.\n"
    "\n"
    "  fermata-server [--flag=value ...] [--flagfile=FILE]\n"
    "\n"
    "Durations are written as 500ms, 10s, 5m, 1h30m; sizes as 512MiB or 1GiB. A flag file holds\n"
    "one --flag=value a line; lines that begin with # are comments. --version tells the version.\n";

int Refuse(const absl::Status& status) {
  std::cerr << "fermata-server: " << status.message() << "\n";
  return kBadFlags;
}

}  // namespace

int main(int argc, char** argv) {
  fermata::MakeOpenMpSleep(argv);
  // gRPC's mutexes are Abseil's, which Debian builds to look for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto wish = fermata::ParseCommandLine(arguments, fermata::ServerFlags());
  if (!wish.ok()) return Refuse(wish.status());
  if (*wish == fermata::CommandLineWish::kHelp) {
    std::cout << kIntroduction << fermata::FlagsHelp(fermata::ServerFlags());
    return 0;
  }
  if (*wish == fermata::CommandLineWish::kVersion) {
    std::cout << "fermata-server " << fermata::Version() << "\n";
    return 0;
  }
  const auto config = fermata::ConfigFromFlags();
  if (!config.ok()) return Refuse(config.status());

  // Never destroyed: its thread waits for signals as long as the process lives.
  static auto* signals = new fermata::Signals();
  fermata::SetUpLogging(config->log);
  const absl::Status status = fermata::Serve(*config, *signals);
  if (status.ok()) return 0;
  std::cerr << "fermata-server: " << status.message() << "\n";
  return kCanNotServe;
}
