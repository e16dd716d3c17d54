#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace fermata::cli {
namespace {

int Show(const CommonOptions& common, const absl::StatusOr<v1::Session>& session, const Io& io) {
  if (!session.ok()) return Fail(common, session.status(), io);
  io.out << (common.json ? ToJson(*session) + "\n" : FormatSession(*session));
  return kExitOk;
}

}  // namespace

int RunListSessions(const CommonOptions& common, const ListSessionsCommand& command, const Io& io) {
  const auto sessions = client::Client(OptionsOf(common)).ListAllSessions(command.labels);
  if (!sessions.ok()) return Fail(common, sessions.status(), io);
  for (const v1::Session& session : *sessions) {
    io.out << (common.json ? ToJson(session) + "\n" : FormatSessionLine(session));
  }
  return kExitOk;
}

int RunShowSession(const CommonOptions& common, const ShowSessionCommand& command, const Io& io) {
  return Show(common, client::Client(OptionsOf(common)).GetSession(command.id), io);
}

int RunCreateSession(const CommonOptions& common, const CreateSessionCommand& command,
                     const Io& io) {
  return Show(common, client::Client(OptionsOf(common)).CreateSession(command.request), io);
}

int RunUpdateSession(const CommonOptions& common, const UpdateSessionCommand& command,
                     const Io& io) {
  return Show(common, client::Client(OptionsOf(common)).UpdateSession(command.request), io);
}

int RunDeleteSessions(const CommonOptions& common, const DeleteSessionsCommand& command,
                      const Io& io) {
  client::Client client(OptionsOf(common));
  int exit_code = kExitOk;
  v1::DeleteSessionRequest request = command.request;
  for (const std::string& id : command.ids) {
    request.set_id(id);
    if (absl::Status status = client.DeleteSession(request); !status.ok()) {
      exit_code = Fail(common, status, io);
    }
  }
  return exit_code;
}

int RunForkSession(const CommonOptions& common, const ForkSessionCommand& command, const Io& io) {
  return Show(common, client::Client(OptionsOf(common)).ForkSession(command.request), io);
}

int RunRewindSession(const CommonOptions& common, const RewindSessionCommand& command,
                     const Io& io) {
  return Show(common, client::Client(OptionsOf(common)).RewindSession(command.request), io);
}

int RunListCheckpoints(const CommonOptions& common, const ListCheckpointsCommand& command,
                       const Io& io) {
  const auto reply = client::Client(OptionsOf(common)).ListCheckpoints(command.id);
  if (!reply.ok()) return Fail(common, reply.status(), io);
  for (const v1::CheckpointInfo& checkpoint : reply->checkpoints()) {
    io.out << (common.json ? ToJson(checkpoint) + "\n" : FormatCheckpointLine(checkpoint));
  }
  return kExitOk;
}

int RunPinSessions(const CommonOptions& common, const PinSessionsCommand& command, const Io& io) {
  client::Client client(OptionsOf(common));
  int exit_code = kExitOk;
  for (const std::string& id : command.ids) {
    v1::UpdateSessionRequest request;
    request.set_id(id);
    request.set_pinned(command.pinned);
    if (const auto session = client.UpdateSession(request); !session.ok()) {
      exit_code = Fail(common, session.status(), io);
    }
  }
  return exit_code;
}

}  // namespace fermata::cli
