#include <string>

#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace fermata::cli {
namespace {

int RunTokenize(const CommonOptions& common, const TokenizeCommand& command, const Io& io) {
  TextSource source = command.text;
  if (!source.argument && !source.file) source.file = "-";
  const absl::StatusOr<std::optional<std::string>> text = ReadText(source, io.in);
  if (!text.ok()) return Fail(common, text.status(), io);
  v1::TokenizeRequest request = command.request;
  request.set_text(**text);
  const auto reply = client::Client(OptionsOf(common)).Tokenize(request);
  if (!reply.ok()) return Fail(common, reply.status(), io);
  io.out << (common.json ? ToJson(*reply) : absl::StrJoin(reply->token_ids(), " ")) << "\n";
  return kExitOk;
}

int RunDetokenize(const CommonOptions& common, const DetokenizeCommand& command, const Io& io) {
  const auto reply = client::Client(OptionsOf(common)).Detokenize(command.request);
  if (!reply.ok()) return Fail(common, reply.status(), io);
  io.out << (common.json ? ToJson(*reply) + "\n" : reply->text());
  if (!common.json && io.out_is_terminal) io.out << "\n";
  return kExitOk;
}

int RunModels(const CommonOptions& common, const Io& io) {
  const auto model = client::Client(OptionsOf(common)).GetModel();
  if (!model.ok()) return Fail(common, model.status(), io);
  io.out << (common.json ? ToJson(*model) + "\n" : FormatModel(*model));
  return kExitOk;
}

int RunHealth(const CommonOptions& common, const HealthCommand& command, const Io& io) {
  client::ClientOptions options = OptionsOf(common);
  options.wait_for_ready = command.wait;
  client::Client client(options);
  const absl::Time end = absl::Now() + common.deadline;
  absl::Status status = client.CheckHealth(command.service);
  while (command.wait && absl::IsUnavailable(status) && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(50));
    status = client.CheckHealth(command.service);
  }
  if (!status.ok()) return Fail(common, status, io);
  io.out << (common.json ? "{\"status\":\"SERVING\"}" : "SERVING") << "\n";
  return kExitOk;
}

// Runs the alternative that an Invocation holds.
struct Runner {
  const CommonOptions& common;
  const Io& io;

  int operator()(const GenerateCommand& command) const { return RunGenerate(common, command, io); }
  int operator()(const ChatCommand& command) const { return RunChat(common, command, io); }
  int operator()(const ScoreCommand& command) const { return RunScore(common, command, io); }
  int operator()(const TokenizeCommand& command) const { return RunTokenize(common, command, io); }
  int operator()(const DetokenizeCommand& command) const {
    return RunDetokenize(common, command, io);
  }
  int operator()(const ListSessionsCommand& command) const {
    return RunListSessions(common, command, io);
  }
  int operator()(const ShowSessionCommand& command) const {
    return RunShowSession(common, command, io);
  }
  int operator()(const CreateSessionCommand& command) const {
    return RunCreateSession(common, command, io);
  }
  int operator()(const UpdateSessionCommand& command) const {
    return RunUpdateSession(common, command, io);
  }
  int operator()(const DeleteSessionsCommand& command) const {
    return RunDeleteSessions(common, command, io);
  }
  int operator()(const AttachCommand& command) const { return RunAttach(common, command, io); }
  int operator()(const ForkSessionCommand& command) const {
    return RunForkSession(common, command, io);
  }
  int operator()(const RewindSessionCommand& command) const {
    return RunRewindSession(common, command, io);
  }
  int operator()(const ListCheckpointsCommand& command) const {
    return RunListCheckpoints(common, command, io);
  }
  int operator()(const PinSessionsCommand& command) const {
    return RunPinSessions(common, command, io);
  }
  int operator()(const ExportSessionCommand& command) const {
    return RunExportSession(common, command, io);
  }
  int operator()(const ImportSessionCommand& command) const {
    return RunImportSession(common, command, io);
  }
  int operator()(const FsckCommand& command) const { return RunFsck(common, command, io); }
  int operator()(const ModelsCommand&) const { return RunModels(common, io); }
  int operator()(const InspectModelCommand& command) const {
    return RunInspectModel(common, command, io);
  }
  int operator()(const VerifyModelCommand& command) const {
    return RunVerifyModel(common, command, io);
  }
  int operator()(const MakeModelCommand& command) const {
    return RunMakeModel(common, command, io);
  }
  int operator()(const BenchCommand& command) const { return RunBench(common, command, io); }
  int operator()(const HealthCommand& command) const { return RunHealth(common, command, io); }
  int operator()(const VersionCommand&) const {
    io.out << (common.json ? "{\"version\":\"" FERMATA_VERSION "\"}" : "fermata " FERMATA_VERSION)
           << "\n";
    return kExitOk;
  }
};

}  // namespace

client::ClientOptions OptionsOf(const CommonOptions& common) {
  client::ClientOptions options;
  options.address = common.server;
  options.deadline = common.deadline;
  return options;
}

int Run(const Invocation& invocation, const Io& io) {
  return std::visit(Runner{invocation.common, io}, invocation.command);
}

}  // namespace fermata::cli
