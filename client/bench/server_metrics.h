#ifndef FERMATA_CLIENT_BENCH_SERVER_METRICS_H_
#define FERMATA_CLIENT_BENCH_SERVER_METRICS_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "client/bench/turn.h"

namespace fermata::bench {

// Samples of a page of metrics, by name and labels as they are written there.
using Samples = std::map<std::string, double>;

// Parses Prometheus' text format; what is not a sample is passed over.
Samples ParseSamples(std::string_view page);

// The page at `url`, "http://HOST[:PORT][/PATH]". INVALID_ARGUMENT for another kind of URL,
// UNAVAILABLE when it can not be had within a few seconds.
absl::StatusOr<std::string> FetchPage(const std::string& url);

// Where the metrics of the server at the gRPC address are by default: the next port, /metrics. Empty
// for an address that does not end in a port.
std::string DefaultMetricsUrl(const std::string& address);

// The value of `label` in the first sample of `name`; empty when there is none.
std::string LabelOf(const Samples& samples, const std::string& name, const std::string& label);

// What the server's metrics say over a run.
struct ServerWatch {
  Samples begin;  // When the warm-up was over.
  Samples end;
  Samples peak;  // Largest values that were seen, one look a second.
};

// Looks at the metrics each second, on a thread of its own, until it is stopped.
class MetricsWatcher {
 public:
  // `first` is what the page says now. The clock must outlive it.
  MetricsWatcher(std::string url, Samples first, const Clock& clock, double warmup);
  ~MetricsWatcher();
  MetricsWatcher(const MetricsWatcher&) = delete;
  MetricsWatcher& operator=(const MetricsWatcher&) = delete;

  // Takes a last look. Where a look failed, the one before counts.
  ServerWatch Stop();

 private:
  void Watch();
  void Look();

  const std::string url_;
  const Clock& clock_;
  const double warmup_;
  ServerWatch watch_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_SERVER_METRICS_H_
