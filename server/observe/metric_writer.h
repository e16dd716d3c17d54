#ifndef FERMATA_SERVER_OBSERVE_METRIC_WRITER_H_
#define FERMATA_SERVER_OBSERVE_METRIC_WRITER_H_

#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace fermata {

// A value, and the labels that tell it from others of its family.
struct MetricSample {
  std::vector<prometheus::ClientMetric::Label> labels;
  double value = 0;
};

// Appends families whose values are at hand to a list that is being collected.
class MetricWriter {
 public:
  explicit MetricWriter(std::vector<prometheus::MetricFamily>& families) : families_(families) {}

  template <typename Number>
  void Gauge(const char* name, const char* help, Number value,
             std::vector<prometheus::ClientMetric::Label> labels = {}) {
    Gauges(name, help, {{std::move(labels), static_cast<double>(value)}});
  }
  void Gauges(const char* name, const char* help, const std::vector<MetricSample>& samples) {
    Append(name, help, prometheus::MetricType::Gauge, samples);
  }
  template <typename Number>
  void Counter(const char* name, const char* help, Number value) {
    Counters(name, help, {{{}, static_cast<double>(value)}});
  }
  void Counters(const char* name, const char* help, const std::vector<MetricSample>& samples) {
    Append(name, help, prometheus::MetricType::Counter, samples);
  }

 private:
  void Append(const char* name, const char* help, prometheus::MetricType type,
              const std::vector<MetricSample>& samples) {
    prometheus::MetricFamily& family =
        families_.emplace_back(prometheus::MetricFamily{name, help, type, {}});
    for (const MetricSample& sample : samples) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = sample.labels;
      (type == prometheus::MetricType::Gauge ? metric.gauge.value : metric.counter.value) =
          sample.value;
    }
  }

  std::vector<prometheus::MetricFamily>& families_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_METRIC_WRITER_H_
