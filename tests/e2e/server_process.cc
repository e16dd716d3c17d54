#include "tests/e2e/server_process.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace fermata::e2e {
namespace {

std::vector<std::string> WithBaseFlags(std::vector<std::string> flags, const TempDir& directory) {
  flags.insert(flags.begin(),
               {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                "--port_file=" + (directory / "ports").string(), "--compute_threads=1"});
  return flags;
}

// All that the server sends to `request` until it closes the connection; empty on any failure.
std::string Exchange(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string reply;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char buffer[1 << 14];
    for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      reply.append(buffer, static_cast<size_t>(n));
    }
  }
  close(fd);
  return reply;
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
  const std::string text = Exchange(
      http_port_, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  HttpReply reply;
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return reply;
  std::istringstream head(text.substr(0, end));
  std::string version;
  head >> version >> reply.status;
  for (std::string line; std::getline(head, line);) {
    constexpr std::string_view kType = "Content-Type: ";
    if (line.starts_with(kType)) {
      reply.content_type = line.substr(kType.size(), line.find('\r') - kType.size());
    }
  }
  reply.body = text.substr(end + 4);
  return reply;
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
