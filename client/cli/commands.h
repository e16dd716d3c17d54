#ifndef FERMATA_CLIENT_CLI_COMMANDS_H_
#define FERMATA_CLIENT_CLI_COMMANDS_H_

#include <istream>
#include <ostream>

#include "client/cli/arguments.h"
#include "client/client.h"

namespace fermata::cli {

// The process's streams, and whether people are at them.
struct Io {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
};

// Runs a command to its end, and returns the process's exit code.
int Run(const Invocation& invocation, const Io& io);

// Each runs one command. They are called before any other thread runs.
int RunGenerate(const CommonOptions& common, const GenerateCommand& command, const Io& io);
int RunAttach(const CommonOptions& common, const AttachCommand& command, const Io& io);
int RunChat(const CommonOptions& common, const ChatCommand& command, const Io& io);
int RunScore(const CommonOptions& common, const ScoreCommand& command, const Io& io);
int RunListSessions(const CommonOptions& common, const ListSessionsCommand& command, const Io& io);
int RunShowSession(const CommonOptions& common, const ShowSessionCommand& command, const Io& io);
int RunCreateSession(const CommonOptions& common, const CreateSessionCommand& command,
                     const Io& io);
int RunUpdateSession(const CommonOptions& common, const UpdateSessionCommand& command,
                     const Io& io);
int RunDeleteSessions(const CommonOptions& common, const DeleteSessionsCommand& command,
                      const Io& io);
int RunForkSession(const CommonOptions& common, const ForkSessionCommand& command, const Io& io);
int RunRewindSession(const CommonOptions& common, const RewindSessionCommand& command,
                     const Io& io);
int RunListCheckpoints(const CommonOptions& common, const ListCheckpointsCommand& command,
                       const Io& io);
int RunPinSessions(const CommonOptions& common, const PinSessionsCommand& command, const Io& io);
int RunExportSession(const CommonOptions& common, const ExportSessionCommand& command,
                     const Io& io);
int RunImportSession(const CommonOptions& common, const ImportSessionCommand& command,
                     const Io& io);
int RunFsck(const CommonOptions& common, const FsckCommand& command, const Io& io);
int RunInspectModel(const CommonOptions& common, const InspectModelCommand& command, const Io& io);
int RunVerifyModel(const CommonOptions& common, const VerifyModelCommand& command, const Io& io);
int RunMakeModel(const CommonOptions& common, const MakeModelCommand& command, const Io& io);
int RunBench(const CommonOptions& common, const BenchCommand& command, const Io& io);

client::ClientOptions OptionsOf(const CommonOptions& common);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_COMMANDS_H_
