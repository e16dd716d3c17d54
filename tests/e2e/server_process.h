#ifndef FERMATA_TESTS_E2E_SERVER_PROCESS_H_
#define FERMATA_TESTS_E2E_SERVER_PROCESS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/child_process.h"
#include "tests/e2e/http_client.h"

namespace fermata::e2e {

// The real fermata-server on free ports, with one compute thread: several run at once.
class ServerProcess {
 public:
  // Starts it with `flags` beside those, and waits until it serves. Throws, with the server's log,
  // when it does not.
  explicit ServerProcess(std::vector<std::string> flags = {});

  const std::string& address() const { return address_; }  // Of gRPC.
  int http_port() const { return http_port_; }
  // A connection of its own, whose calls end after 90 seconds at the latest.
  std::unique_ptr<client::Client> Connect(client::ClientOptions options = {}) const;
  HttpReply Get(const std::string& path) const;

  // All samples of /metrics by name and labels, as they are written there.
  std::map<std::string, double> Metrics() const;
  double Metric(const std::string& name_and_labels) const;
  // Waits until the metric has the value.
  bool MetricBecomes(const std::string& name_and_labels, double value) const;

  void Signal(int signal) const { process_.Signal(signal); }
  bool running() { return process_.running(); }
  std::optional<int> Wait() { return process_.Wait(); }
  std::string log() const { return process_.errors(); }

 private:
  TempDir directory_;
  ChildProcess process_;
  std::string address_;
  int http_port_ = 0;
};

// Makes the directory `path` a model that loads and computes in no time: RetNet, of 2 layers of 64, over
// bytes. Throws when the `fermata` command does not.
void MakeSmallModel(const std::string& path);

inline constexpr char kRunning[] = "fermata_running_requests";
inline constexpr char kQueued[] = "fermata_queued_requests";
inline constexpr char kTokensOut[] = "fermata_tokens_total{direction=\"out\"}";

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_SERVER_PROCESS_H_
