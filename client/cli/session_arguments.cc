#include "client/cli/session_arguments.h"

#include <cstdint>
#include <string>

#include "client/cli/flags.h"
#include "client/cli/help.h"

namespace fermata::cli {
namespace {

// The session that a command is about: its one positional argument.
template <typename Request>
void AddId(CLI::App* app, Request* request) {
  AddText(app, "id", "", "The session", [request](const std::string& id) { request->set_id(id); });
  app->get_option("id")->required();
}

// What can be said of a session that is made, and changed later.
template <typename Request>
void AddKeeping(CLI::App* app, Request* request, const std::string& ttl) {
  AddDuration(app, "--ttl", ttl, [request] { return request->mutable_time_to_live(); });
  AddDurability(app, [request](v1::Durability durability) { request->set_durability(durability); });
  AddCheckpoints(app, [request](int32_t n) { request->set_max_checkpoints(n); });
}

void AddLook(CLI::App* sessions, const Leaves& leaves) {
  {
    auto [app, command] =
        leaves.Add<ListSessionsCommand>(sessions, "list", "List sessions in the order of ids", "");
    AddLabels(app, "Only sessions with this label; may be repeated",
              [c = command](const std::string& key, const std::string& value) {
                c->labels[key] = value;
              });
  }
  {
    auto [app, command] = leaves.Add<ShowSessionCommand>(sessions, "show", "Show a session", "");
    app->add_option("id", command->id, "The session")->type_name("")->required();
  }
  auto [app, command] = leaves.Add<ListCheckpointsCommand>(
      sessions, "checkpoints", "List what a session can be rewound to, oldest first", "");
  app->add_option("id", command->id, "The session")->type_name("")->required();
}

void AddMake(CLI::App* sessions, const Leaves& leaves) {
  constexpr char kTtl[] = "Drop it when it has not been used for this long";
  {
    auto [app, command] =
        leaves.Add<CreateSessionCommand>(sessions, "create", "Make a session", "");
    AddText(app, "id", "", "Its id; without one the server chooses it",
            [c = command](const std::string& id) { c->request.set_id(id); });
    AddLabels(app, "Label it; may be repeated",
              [c = command](const std::string& key, const std::string& value) {
                (*c->request.mutable_labels())[key] = value;
              });
    AddKeeping(app, &command->request, kTtl);
  }
  auto [app, command] = leaves.Add<ForkSessionCommand>(
      sessions, "fork", "Make a session that goes on from where another stands, or stood",
      kForkFooter);
  AddId(app, &command->request);
  AddText(app, "new-id", "", "The new session; without one the server chooses its id",
          [c = command](const std::string& id) { c->request.set_new_id(id); });
  AddPlace(app, [c = command] { return c->request.mutable_from(); });
  AddLabels(app, "Label the new one; may be repeated",
            [c = command](const std::string& key, const std::string& value) {
              (*c->request.mutable_labels())[key] = value;
            });
  AddKeeping(app, &command->request, kTtl);
  AddExpected(app, &command->request);
}

void AddChange(CLI::App* sessions, const Leaves& leaves) {
  {
    auto [app, command] = leaves.Add<UpdateSessionCommand>(
        sessions, "update", "Change labels, time to live, durability and checkpoints", "");
    AddId(app, &command->request);
    AddLabels(app, "Replace all labels by those given; may be repeated",
              [c = command](const std::string& key, const std::string& value) {
                (*c->request.mutable_labels()->mutable_values())[key] = value;
              });
    app->add_flag_function(
        "--no-labels", [c = command](int64_t) { c->request.mutable_labels(); },
        "Remove all labels");
    AddKeeping(app, &command->request,
               "Drop it when it has not been used for this long; 0 keeps it");
    AddExpected(app, &command->request);
  }
  {
    auto [app, command] = leaves.Add<RewindSessionCommand>(
        sessions, "rewind", "Take a session back to a checkpoint: later ones go", kRewindFooter);
    AddId(app, &command->request);
    command->request.mutable_to()->set_before_last_turn(true);
    AddPlace(app, [c = command] { return c->request.mutable_to(); });
    AddExpected(app, &command->request);
  }
  {
    auto [app, command] =
        leaves.Add<DeleteSessionsCommand>(sessions, "delete", "Delete sessions", "");
    app->add_option("ids", command->ids, "The sessions")->type_name("")->required();
    AddExpected(app, &command->request);
  }
  for (const bool pinned : {true, false}) {
    auto [app, command] = leaves.Add<PinSessionsCommand>(
        sessions, pinned ? "pin" : "unpin",
        pinned ? "Make templates of sessions: never dropped, and only to be forked"
               : "Make templates sessions again",
        "");
    command->pinned = pinned;
    app->add_option("ids", command->ids, "The sessions")->type_name("")->required();
  }
}

void AddTransfer(CLI::App* sessions, const Leaves& leaves) {
  {
    auto [app, command] = leaves.Add<ExportSessionCommand>(
        sessions, "export", "Write a session's snapshot to a file", kExportFooter);
    AddId(app, &command->request);
    app->add_option("--output,-o", command->output,
                    "The file; without it standard output, which must be no terminal")
        ->type_name("FILE");
    AddPlace(app, [c = command] { return c->request.mutable_from(); });
  }
  auto [app, command] = leaves.Add<ImportSessionCommand>(
      sessions, "import", "Make a session of an exported snapshot", kExportFooter);
  app->add_option("file", command->input, "The file; without it standard input")->type_name("");
  AddText(app, "--id", "ID", "The session's id; without it the one that it was exported under",
          [c = command](const std::string& id) { c->options.set_id(id); });
  app->add_flag_function(
      "--replace", [c = command](int64_t) { c->options.set_replace(true); },
      "Put it in the place of a session of that id");
}

}  // namespace

void AddSessionCommands(CLI::App* app, const Leaves& leaves) {
  CLI::App* sessions = app->add_subcommand(
      "sessions", "List, show, make, change, fork, rewind, export, import, delete sessions");
  sessions->footer(kSessionsFooter);
  AddLook(sessions, leaves);
  AddMake(sessions, leaves);
  AddChange(sessions, leaves);
  AddTransfer(sessions, leaves);
  sessions->require_subcommand(1);
}

}  // namespace fermata::cli
