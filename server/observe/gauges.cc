#include "server/observe/gauges.h"

#include <string>

#include "server/observe/metric_writer.h"

namespace fermata {
namespace {

void AppendLoad(const ServingStats& stats, MetricWriter& writer) {
  writer.Gauge("fermata_running_requests", "Requests that hold a state now.", stats.load.running);
  writer.Gauge("fermata_running_requests_limit",
               "Requests that can hold one, each a sequence of the batch.", stats.max_running);
  writer.Gauge("fermata_queued_requests", "Requests that wait for a place now.", stats.load.queued);
  writer.Gauge("fermata_queued_requests_limit", "Requests that can wait before more are refused.",
               stats.max_queued);
}

// One sample for each tier.
template <typename Value>
std::vector<MetricSample> ByTier(const SessionStoreStats& stats, Value value) {
  std::vector<MetricSample> samples;
  for (const SessionStoreStats::OfTier& tier : stats.tiers) {
    samples.push_back({{{"tier", std::string(tier.tier)}}, static_cast<double>(value(tier))});
  }
  return samples;
}

MetricSample Moves(const char* direction, const char* reason, int64_t count) {
  return {{{"direction", direction}, {"reason", reason}}, static_cast<double>(count)};
}

void AppendTiers(const SessionStoreStats& stats, MetricWriter& writer) {
  using Tier = SessionStoreStats::OfTier;
  writer.Gauges("fermata_sessions", "Sessions that are kept now, by the tier they would come from.",
                ByTier(stats, [](const Tier& tier) { return tier.sessions; }));
  writer.Gauges("fermata_session_snapshots", "Snapshots that a tier has now, checkpoints included.",
                ByTier(stats, [](const Tier& tier) { return tier.usage.snapshots; }));
  writer.Gauges("fermata_session_bytes", "Bytes that a tier's snapshots take now.",
                ByTier(stats, [](const Tier& tier) { return tier.usage.bytes; }));
  writer.Gauges("fermata_session_limit_bytes", "Limit of those bytes; 0 is none.",
                ByTier(stats, [](const Tier& tier) { return tier.usage.limit_bytes; }));
  writer.Counters(
      "fermata_session_moves_total", "Sessions that moved between tiers.",
      {Moves("down", "pressure", stats.moves_down_pressure),
       Moves("down", "drain", stats.moves_down_drain), Moves("up", "turn", stats.moves_up_turn)});
  writer.Counter("fermata_session_damaged_total", "Snapshots that failed their checksums.",
                 stats.damaged);
}

void AppendSessions(const ModelInfo& model, const SessionStoreStats& stats, MetricWriter& writer) {
  AppendTiers(stats, writer);
  writer.Counter("fermata_session_evictions_total", "Sessions that were dropped to make room.",
                 stats.evictions);
  writer.Counter("fermata_session_expirations_total",
                 "Sessions that were dropped by their time to live.", stats.expirations);
  writer.Gauge("fermata_session_checkpoints", "Checkpoints of all sessions now.",
               stats.checkpoints);
  writer.Gauge("fermata_session_checkpoint_bytes",
               "Bytes of the states that only checkpoints keep now.", stats.checkpoint_bytes);
  writer.Gauge("fermata_session_state_bytes", "Bytes of the states of all sessions now.",
               stats.sessions * model.state_bytes);
  writer.Gauge("fermata_session_kv_equivalent_bytes",
               "Bytes that the KV caches of a softmax transformer of the same shape would hold for "
               "the tokens of all sessions now.",
               stats.positions * model.kv_equivalent_bytes_per_token);
}

void AppendPrefixes(const PrefixCache::Stats& stats, MetricWriter& writer) {
  writer.Gauge("fermata_prefix_cache_states", "States after known beginnings that are kept now.",
               stats.states);
  writer.Gauge("fermata_prefix_cache_bytes", "Bytes that they take, token ids included.",
               stats.bytes);
  writer.Gauge("fermata_prefix_cache_limit_bytes", "Limit of those bytes; 0 is no cache.",
               stats.limit_bytes);
  writer.Counter("fermata_prefix_cache_lookups_total", "Requests that looked for their beginning.",
                 stats.lookups);
  writer.Counter("fermata_prefix_cache_hits_total", "Requests that found it.", stats.hits);
  writer.Counter("fermata_prefix_cache_hit_tokens_total",
                 "Prompt tokens that did not have to be consumed.", stats.hit_tokens);
  writer.Counter("fermata_prefix_cache_evictions_total", "States that were dropped to make room.",
                 stats.evictions);
}

void AppendAnswers(const KeptAnswersStats& stats, MetricWriter& writer) {
  writer.Gauge("fermata_kept_answers", "Turns that can be found by their request_id now.",
               stats.answers);
  writer.Gauge("fermata_kept_answer_bytes", "Bytes that their events take.", stats.bytes);
  writer.Gauge("fermata_kept_answer_limit_bytes", "Limit of those bytes.", stats.limit_bytes);
  writer.Counter("fermata_kept_answers_dropped_total", "Answers that were dropped to make room.",
                 stats.dropped);
}

void AppendModel(const ModelInfo& model, MetricWriter& writer) {
  writer.Gauge("fermata_model_info", "Always 1; the labels say which model is served.", 1,
               {{"name", model.name},
                {"family", model.family},
                {"fingerprint", model.fingerprint},
                {"weights_dtype", model.weights_dtype}});
  writer.Gauge("fermata_state_bytes_per_session", "Bytes of one state, at any position.",
               model.state_bytes);
  writer.Gauge("fermata_kv_equivalent_bytes_per_token",
               "Bytes that a KV cache of the same shape would hold for each token.",
               model.kv_equivalent_bytes_per_token);
  if (model.kv_equivalent_bytes_per_token > 0) {
    writer.Gauge("fermata_break_even_tokens",
                 "Tokens at which that KV cache would be as large as the state.",
                 static_cast<double>(model.state_bytes) /
                     static_cast<double>(model.kv_equivalent_bytes_per_token));
  }
}

}  // namespace

void AppendServingGauges(const ServingStats& stats,
                         std::vector<prometheus::MetricFamily>& families) {
  MetricWriter writer(families);
  AppendLoad(stats, writer);
  AppendSessions(*stats.model, stats.sessions, writer);
  AppendPrefixes(stats.prefixes, writer);
  AppendAnswers(stats.answers, writer);
  AppendModel(*stats.model, writer);
}

}  // namespace fermata
