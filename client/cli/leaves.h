#ifndef FERMATA_CLIENT_CLI_LEAVES_H_
#define FERMATA_CLIENT_CLI_LEAVES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "client/cli/arguments.h"

namespace fermata::cli {

// Makes the subcommands that do something. Each fills a command of its own, which outlives the parse.
class Leaves {
 public:
  // Where the parse leaves what every subcommand has, and the command that was chosen. Both must
  // outlive the parse.
  Leaves(CommonOptions* common, std::function<Command()>* chosen)
      : common_(common), chosen_(chosen) {}

  // A subcommand that yields the command it returns the options of.
  template <typename T>
  std::pair<CLI::App*, std::shared_ptr<T>> Add(CLI::App* parent, const std::string& name,
                                               const std::string& description,
                                               const std::string& footer) const {
    CLI::App* app = parent->add_subcommand(name, description);
    app->footer(footer);
    auto command = std::make_shared<T>();
    app->final_callback(
        [chosen = chosen_, command] { *chosen = [command] { return Command(*command); }; });
    AddCommon(app);
    return {app, command};
  }

  // The flags of every subcommand.
  void AddCommon(CLI::App* app) const;

 private:
  CommonOptions* common_;
  std::function<Command()>* chosen_;
};

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_LEAVES_H_
