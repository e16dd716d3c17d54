#ifndef FERMATA_SERVER_OBSERVE_PROCESS_METRICS_H_
#define FERMATA_SERVER_OBSERVE_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/metric_family.h"

namespace fermata {

// Appends what the system tells of this process, under the names that Prometheus' own client libraries
// use. Thread-safe.
void AppendProcessMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_PROCESS_METRICS_H_
