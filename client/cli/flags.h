#ifndef FERMATA_CLIENT_CLI_FLAGS_H_
#define FERMATA_CLIENT_CLI_FLAGS_H_

#include <functional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/time/time.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/session.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_field.h"

// Flags that several subcommands have, and kinds of flags. A wrong value is told to CLI11 as it
// takes it: by a CLI::ValidationError, out of the setter that it called.
namespace fermata::cli {

using Setter = std::function<void(const std::string&)>;

void AddText(CLI::App* app, const std::string& name, const std::string& type,
             const std::string& description, const Setter& set);

// A flag that may be given several times, each time with one value.
void AddRepeated(CLI::App* app, const std::string& name, const std::string& type,
                 const std::string& description, const Setter& each);

void AddDuration(CLI::App* app, const std::string& name, const std::string& description,
                 const std::function<void(absl::Duration)>& set);
// A duration that sets the field that `field` gives access to.
using DurationField = std::function<google::protobuf::Duration*()>;
void AddDuration(CLI::App* app, const std::string& name, const std::string& description,
                 const DurationField& field);

// --label KEY=VALUE, repeated. `add` takes each.
void AddLabels(CLI::App* app, const std::string& description,
               const std::function<void(const std::string& key, const std::string& value)>& add);

// Appends the ids of `text`, which commas or spaces separate.
void ParseTokenIds(const std::string& name, const std::string& text,
                   google::protobuf::RepeatedField<int32_t>* ids);

// Whose request it is, and how urgent: --request-id, --priority and --tenant of a GenerateRequest or
// ScoreRequest, which must outlive the parse.
template <typename Request>
void AddOrigin(CLI::App* app, Request* request) {
  AddText(app, "--request-id", "ID", "Appears in the server's logs; a turn is found again by it",
          [request](const std::string& id) { request->set_request_id(id); });
  app->add_option_function<int32_t>(
         "--priority", [request](int32_t priority) { request->set_priority(priority); },
         "Who goes first when requests must wait: -10 to 10, default 0")
      ->type_name("N");
  AddText(app, "--tenant", "NAME", "On whose account it runs; tenants get equal shares",
          [request](const std::string& tenant) { request->set_tenant(tenant); });
}

// --durability, which `set` takes.
void AddDurability(CLI::App* app, const std::function<void(v1::Durability)>& set);
// --checkpoints, which `set` takes.
void AddCheckpoints(CLI::App* app, const std::function<void(int32_t)>& set);

// A place in a session's past: --turns, --position or --before-last-turn.
void AddPlace(CLI::App* app, const std::function<v1::Checkpoint*()>& place);

// --expected-position and --expected-revision of a request on a session, which must outlive the parse.
template <typename Request>
void AddExpected(CLI::App* app, Request* request) {
  app->add_option_function<int64_t>(
         "--expected-position",
         [request](int64_t position) { request->set_expected_position(position); },
         "Only if the session is at this position")
      ->type_name("N");
  app->add_option_function<uint64_t>(
         "--expected-revision",
         [request](uint64_t revision) { request->set_expected_revision(revision); },
         "Only if nothing has changed it since this revision, which `show` tells")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""));
}

// What `generate` and `chat` share: session, limits and sampling. `request` must outlive the parse.
void AddTurn(CLI::App* app, v1::GenerateRequest* request);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_FLAGS_H_
