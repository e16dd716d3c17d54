#ifndef FERMATA_TESTS_E2E_CLI_RUNNER_H_
#define FERMATA_TESTS_E2E_CLI_RUNNER_H_

#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"

namespace fermata::e2e {

struct Result {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs the `fermata` command at the suite's server.
class CliTest : public SharedServerTest {
 protected:
  static std::vector<std::string> AtServer(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", server().address()});
    return arguments;
  }

  static Result Fermata(const std::vector<std::string>& arguments, const std::string& input = "") {
    ChildProcess process("fermata", AtServer(arguments), input);
    Result result;
    result.exit_code = process.Wait().value_or(-1);
    result.out = process.output();
    result.err = process.errors();
    return result;
  }

  // Runs a command that must succeed; what it printed.
  static std::string Ok(const std::vector<std::string>& arguments, const std::string& input = "") {
    const Result result = Fermata(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  static std::vector<nlohmann::json> Json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    std::vector<nlohmann::json> objects;
    std::istringstream lines(Ok(arguments));
    for (std::string line; std::getline(lines, line);) {
      objects.push_back(nlohmann::json::parse(line));
    }
    return objects;
  }
};

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_CLI_RUNNER_H_
