#ifndef FERMATA_SERVER_CALLS_SERVING_STATS_H_
#define FERMATA_SERVER_CALLS_SERVING_STATS_H_

#include <optional>

#include "server/calls/kept_answers.h"
#include "server/calls/runtime.h"
#include "server/observe/gauges.h"

namespace fermata {

// What the metrics tell of a server now; nullopt while it has no model. Thread-safe.
std::optional<ServingStats> StatsOf(const ServingState& serving, KeptAnswers& answers);

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_SERVING_STATS_H_
