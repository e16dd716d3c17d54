#ifndef FERMATA_SERVER_OBSERVE_METRICS_H_
#define FERMATA_SERVER_OBSERVE_METRICS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "engine/scheduler/observer.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/observe/gauges.h"

namespace fermata {

// By which way a call came.
enum class FrontKind { kGrpc, kHttp };
const char* FrontName(FrontKind front);  // "grpc" or "http".

// What the server counts, in Prometheus' terms; docs/metrics.md lists it. Counts what happens as the
// engine's observer, for the session store and the fronts; what can be asked for (sessions, load,
// memory) is read when it is collected. Thread-safe.
class Metrics : public EngineObserver {
 public:
  // What `stats` returns is read when it is collected: nullopt while there is no model. Thread-safe.
  using StatsSource = std::function<std::optional<ServingStats>()>;
  // With `vllm_names`, figures that vLLM shows too are shown under its names as well.
  explicit Metrics(StatsSource stats, bool vllm_names = false);

  // One call of a front: `method` is one of ours, `outcome` one of a bounded set, never text of a
  // client.
  void RequestDone(FrontKind front, std::string_view method, std::string_view outcome,
                   absl::Duration duration);
  // Connections that the HTTP server has open now.
  void SetHttpConnections(int connections);

  // What the session store does. `tier` is one of its tiers, `reason` that of an error.
  void SessionRestored(std::string_view tier, absl::Duration duration);
  void SessionsPersisted(int64_t commits, absl::Duration duration);
  void SessionTrouble(std::string_view reason);

  // Everything, in Prometheus' text format 0.0.4.
  std::string Text() const;

  void StepDone(const StepStats& step) override;
  void TokenSampled(absl::Duration since_previous) override;
  void FirstToken(absl::Duration since_arrival) override;
  void TurnCompleted(const std::string& request_id, const TurnResult& result) override;
  // Nothing: the fronts count and log all failures, those before the engine too.
  void RequestFailed(const std::string& request_id, const absl::Status& status) override;
  void ScoreCompleted(const std::string& request_id, int64_t tokens) override;

 private:
  const StatsSource stats_;
  const bool vllm_names_;
  prometheus::Registry registry_;

  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& request_seconds_;
  prometheus::Gauge& http_connections_;

  prometheus::Family<prometheus::Counter>& turns_;
  prometheus::Histogram& turn_seconds_;
  prometheus::Family<prometheus::Histogram>& queue_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& decode_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& turn_prompt_tokens_;
  prometheus::Histogram& turn_generated_tokens_;
  prometheus::Counter& tokens_in_;
  prometheus::Counter& tokens_out_;
  prometheus::Counter& scored_tokens_;

  prometheus::Histogram& batch_size_;
  prometheus::Histogram& step_seconds_;
  prometheus::Histogram& forward_seconds_;
  prometheus::Histogram& choosing_seconds_;
  prometheus::Histogram& step_prompt_tokens_;
  prometheus::Histogram& step_prompt_budget_;
  prometheus::Counter& denominator_clamps_;

  prometheus::Family<prometheus::Histogram>& restore_seconds_;
  prometheus::Histogram& persist_seconds_;
  prometheus::Histogram& persist_commits_;
  prometheus::Family<prometheus::Counter>& session_troubles_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_METRICS_H_
