#include "server/gauges.h"

#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include <unistd.h>

namespace fermata {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Appends families of one sample each.
class Writer {
 public:
  explicit Writer(std::vector<MetricFamily>& families) : families_(families) {}

  void Gauge(const char* name, const char* help, double value,
             std::initializer_list<ClientMetric::Label> labels = {}) {
    ClientMetric metric;
    metric.label = labels;
    metric.gauge.value = value;
    families_.push_back({name, help, MetricType::Gauge, {std::move(metric)}});
  }

  void Counter(const char* name, const char* help, int64_t value,
               std::initializer_list<ClientMetric::Label> labels = {}) {
    ClientMetric metric;
    metric.label = labels;
    metric.counter.value = static_cast<double>(value);
    families_.push_back({name, help, MetricType::Counter, {std::move(metric)}});
  }

 private:
  std::vector<MetricFamily>& families_;
};

void AppendLoad(const EngineLoad& load, Writer& writer) {
  writer.Gauge("fermata_running_requests", "Requests that hold a state now.", load.running);
  writer.Gauge("fermata_queued_requests", "Requests that wait for a place now.", load.queued);
}

void AppendSessions(const ModelInfo& model, const SessionStoreStats& stats, Writer& writer) {
  const ClientMetric::Label memory{"tier", "memory"};
  writer.Gauge("fermata_sessions", "Sessions that are kept now.",
               static_cast<double>(stats.sessions), {memory});
  writer.Gauge("fermata_session_bytes", "Bytes that sessions take now, records included.",
               static_cast<double>(stats.bytes), {memory});
  writer.Gauge("fermata_session_memory_limit_bytes", "Limit of the memory tier.",
               static_cast<double>(stats.memory_limit));
  writer.Counter("fermata_session_evictions_total", "Sessions that were dropped to make room.",
                 stats.evictions);
  writer.Counter("fermata_session_expirations_total",
                 "Sessions that were dropped by their time to live.", stats.expirations);
  writer.Gauge("fermata_session_state_bytes", "Bytes of the states of all sessions now.",
               static_cast<double>(stats.sessions * model.state_bytes));
  writer.Gauge("fermata_session_kv_equivalent_bytes",
               "Bytes that the KV caches of a softmax transformer of the same shape would hold for "
               "the tokens of all sessions now.",
               static_cast<double>(stats.positions * model.kv_equivalent_bytes_per_token));
}

void AppendModel(const ModelInfo& model, Writer& writer) {
  writer.Gauge("fermata_model_info", "Always 1; the labels say which model is served.", 1,
               {{"name", model.name},
                {"family", model.family},
                {"fingerprint", model.fingerprint},
                {"weights_dtype", model.weights_dtype}});
  writer.Gauge("fermata_state_bytes_per_session", "Bytes of one state, at any position.",
               static_cast<double>(model.state_bytes));
  writer.Gauge("fermata_kv_equivalent_bytes_per_token",
               "Bytes that a KV cache of the same shape would hold for each token.",
               static_cast<double>(model.kv_equivalent_bytes_per_token));
  if (model.kv_equivalent_bytes_per_token > 0) {
    writer.Gauge("fermata_break_even_tokens",
                 "Tokens at which that KV cache would be as large as the state.",
                 static_cast<double>(model.state_bytes) /
                     static_cast<double>(model.kv_equivalent_bytes_per_token));
  }
}

}  // namespace

void AppendProcessGauges(std::vector<MetricFamily>& families) {
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  Writer(families).Gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.",
                         static_cast<double>(resident * sysconf(_SC_PAGESIZE)));
}

void AppendServingGauges(const ModelInfo& model, const ServingStats& stats,
                         std::vector<MetricFamily>& families) {
  Writer writer(families);
  AppendLoad(stats.load, writer);
  AppendSessions(model, stats.sessions, writer);
  AppendModel(model, writer);
}

}  // namespace fermata
