#include <string>
#include <string_view>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/turn.h"

namespace fermata::cli {
namespace {

constexpr std::string_view kHelp =
    "A line is one turn; an empty line lets the model go on.\n"
    "/state  where the session is, and its size beside a KV cache's\n"
    "/help   this\n"
    "/quit   leave; the session stays\n";

// One conversation: the session that its turns go on with.
class Chat {
 public:
  Chat(const CommonOptions& common, const ChatCommand& command, const Io& io)
      : common_(common), command_(command), io_(io), client_(OptionsOf(common)) {
    turn_ = command.turn;
  }

  int Run() {
    std::string line;
    while (Prompt() && std::getline(io_.in, line)) {
      if (line == "/quit") break;
      if (line == "/help") {
        io_.err << kHelp;
      } else if (line == "/state") {
        State();
      } else if (line.starts_with('/')) {
        io_.err << "There is no command " << line << "; /help lists them.\n";
      } else {
        Turn(line);
      }
    }
    if (io_.in_is_terminal) io_.err << "\n";
    return exit_code_;
  }

 private:
  bool Prompt() {
    if (io_.in_is_terminal) io_.err << "> " << std::flush;
    return true;
  }

  void Turn(std::string_view line) {
    std::string text = line.empty() ? "" : command_.line_template;
    for (size_t at = text.find("{}"); at != std::string::npos;
         at = text.find("{}", at + line.size())) {
      text.replace(at, 2, line);
    }
    turn_.set_text(text);
    const TurnOutcome outcome = RunTurn(client_, common_, turn_, interrupts_, io_);
    Adopt(outcome.session_id);
    if (outcome.interrupted && absl::IsCancelled(outcome.status)) {
      ReportInterrupted(client_, outcome, io_);
    } else if (!outcome.status.ok()) {
      exit_code_ = Fail(common_, outcome.status, io_);
    }
  }

  // From the first turn on, the session that the server named is the one to go on with.
  void Adopt(const std::string& session_id) {
    if (session_id.empty() || !turn_.session().id().empty()) return;
    turn_.mutable_session()->set_id(session_id);
    io_.err << "session " << session_id << "\n";
  }

  void State() {
    if (turn_.session().id().empty()) {
      io_.err << "There is no session yet: the first line makes it.\n";
      return;
    }
    const auto session = client_.GetSession(turn_.session().id());
    if (session.ok()) {
      io_.err << FormatSession(*session);
    } else {
      Fail(common_, session.status(), io_);
    }
  }

  const CommonOptions& common_;
  const ChatCommand& command_;
  const Io& io_;
  Interrupts interrupts_;
  client::Client client_;
  v1::GenerateRequest turn_;
  int exit_code_ = kExitOk;
};

}  // namespace

int RunChat(const CommonOptions& common, const ChatCommand& command, const Io& io) {
  return Chat(common, command, io).Run();
}

}  // namespace fermata::cli
