#include "tests/e2e/server_process.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace fermata::e2e {
namespace {

std::vector<std::string> WithBaseFlags(std::vector<std::string> flags, const TempDir& directory) {
  flags.insert(flags.begin(),
               {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                "--port_file=" + (directory / "ports").string(), "--compute_threads=1"});
  return flags;
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> flags)
    : process_("fermata-server", WithBaseFlags(std::move(flags), directory_)) {
  const auto fail = [this](const std::string& what) {
    throw std::runtime_error("fermata-server " + what + "; its log:\n" + log());
  };
  const std::filesystem::path ports = directory_ / "ports";
  if (!Eventually([&] { return std::filesystem::exists(ports) || !running(); })) {
    fail("did not write its ports");
  }
  if (!running()) fail("ended with " + std::to_string(Wait().value_or(-1)));
  const auto json = nlohmann::json::parse(ReadAll(ports));
  address_ = "127.0.0.1:" + std::to_string(json.at("grpc").get<int>());
  http_port_ = json.at("http").get<int>();
  const auto client = Connect();
  if (!Eventually([&] { return client->CheckHealth().ok() || !running(); }) || !running()) {
    fail("does not serve");
  }
}

std::unique_ptr<client::Client> ServerProcess::Connect(client::ClientOptions options) const {
  options.address = address_;
  // A server that goes wrong should fail the test, not hold it up.
  options.deadline = std::min(options.deadline, absl::Seconds(90));
  return std::make_unique<client::Client>(options);
}

HttpReply ServerProcess::Get(const std::string& path) const {
  return CallHttp(http_port_, {.target = path});
}

std::map<std::string, double> ServerProcess::Metrics() const {
  std::map<std::string, double> samples;
  std::istringstream text(Get("/metrics").body);
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    samples[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return samples;
}

double ServerProcess::Metric(const std::string& name_and_labels) const {
  return Metrics().at(name_and_labels);
}

bool ServerProcess::MetricBecomes(const std::string& name_and_labels, double value) const {
  return Eventually([&] { return Metric(name_and_labels) == value; });
}

void MakeSmallModel(const std::string& path) {
  ChildProcess make("fermata", {"models", "make", path, "--family", "retnet", "--layers", "2",
                                "--hidden-size", "64", "--vocab-size", "256", "--dtype", "f32"});
  if (make.Wait() != 0) throw std::runtime_error(make.errors());
}

}  // namespace fermata::e2e
