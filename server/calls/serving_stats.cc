#include "server/calls/serving_stats.h"

namespace fermata {

std::optional<ServingStats> StatsOf(const ServingState& serving, KeptAnswers& answers) {
  const absl::StatusOr<Runtime*> found = serving.runtime();
  if (!found.ok()) return std::nullopt;
  Runtime& runtime = **found;
  const PrefixCache* prefixes = runtime.prefixes();
  return ServingStats{.model = &runtime.model(),
                      .load = runtime.engine().load(),
                      .max_running = runtime.engine().options().max_running,
                      .max_queued = runtime.engine().options().max_queued,
                      .sessions = runtime.sessions().stats(),
                      .prefixes = prefixes == nullptr ? PrefixCache::Stats() : prefixes->stats(),
                      .answers = answers.stats()};
}

}  // namespace fermata
