#ifndef FERMATA_SERVER_OBSERVE_GAUGES_H_
#define FERMATA_SERVER_OBSERVE_GAUGES_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "engine/scheduler/engine.h"
#include "engine/session/prefix_cache.h"
#include "engine/session/session_store.h"
#include "prometheus/metric_family.h"

namespace fermata {

// What is read when it is asked for, as metrics; docs/metrics.md lists them.

// Of the turns that can be found by their request's id.
struct KeptAnswersStats {
  int64_t answers = 0;  // Of turns that run, too.
  int64_t bytes = 0;
  int64_t limit_bytes = 0;
  int64_t dropped = 0;  // For want of memory, since the start.
};

// Of a server that has loaded its model.
struct ServingStats {
  const ModelInfo* model = nullptr;
  EngineLoad load;
  int max_running = 0;  // Limits of these.
  int max_queued = 0;
  SessionStoreStats sessions;
  PrefixCache::Stats prefixes;  // All zero where there is none.
  KeptAnswersStats answers;
};
void AppendServingGauges(const ServingStats& stats,
                         std::vector<prometheus::MetricFamily>& families);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_GAUGES_H_
