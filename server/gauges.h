#ifndef FERMATA_SERVER_GAUGES_H_
#define FERMATA_SERVER_GAUGES_H_

#include <vector>

#include "engine/model/model.h"
#include "engine/scheduler/engine.h"
#include "engine/session/prefix_cache.h"
#include "engine/session/session_store.h"
#include "prometheus/metric_family.h"
#include "server/kept_answers.h"

namespace fermata {

// What is read when it is asked for, as metrics; docs/metrics.md lists them.

void AppendProcessGauges(std::vector<prometheus::MetricFamily>& families);

// Of a server that has loaded its model.
struct ServingStats {
  EngineLoad load;
  SessionStoreStats sessions;
  PrefixCache::Stats prefixes;  // All zero where there is none.
  KeptAnswers::Stats answers;
};
void AppendServingGauges(const ModelInfo& model, const ServingStats& stats,
                         std::vector<prometheus::MetricFamily>& families);

}  // namespace fermata

#endif  // FERMATA_SERVER_GAUGES_H_
