#include "server/observe/metrics.h"

#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "prometheus/text_serializer.h"
#include "server/observe/buckets.h"
#include "server/observe/build_info.h"
#include "server/observe/finish_reason.h"
#include "server/observe/process_metrics.h"
#include "server/observe/vllm_names.h"

namespace fermata {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

constexpr const char* kPriorities[] = {"low", "normal", "high"};
// Why the session store calls for a person's eye. Others can come; these are shown from the start, so
// that the first of them is seen as a step from 0.
constexpr const char* kTroubles[] = {"disk_failed", "disk_permission", "index_failed",
                                     "snapshot_damaged"};

const char* PriorityName(int32_t priority) {
  return kPriorities[priority < 0 ? 0 : priority == 0 ? 1 : 2];
}

Family<Counter>& Counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Histogram>& Histograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

Counter& OneCounter(Registry& registry, const char* name, const char* help) {
  return Counters(registry, name, help).Add({});
}

Histogram& OneHistogram(Registry& registry, const char* name, const char* help,
                        const Buckets& buckets) {
  return Histograms(registry, name, help).Add({}, buckets);
}

Gauge& OneGauge(Registry& registry, const char* name, const char* help,
                const prometheus::Labels& labels = {}) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

Counter& Tokens(Registry& registry, const char* direction) {
  return Counters(registry, "fermata_tokens_total",
                  "Tokens consumed from prompts and scored texts (in), and sampled (out).")
      .Add({{"direction", direction}});
}

}  // namespace

const char* FrontName(FrontKind front) { return front == FrontKind::kGrpc ? "grpc" : "http"; }

Metrics::Metrics(StatsSource stats, bool vllm_names)
    : stats_(std::move(stats)),
      vllm_names_(vllm_names),
      requests_(Counters(registry_, "fermata_requests_total",
                         "Calls that have ended, by front, method and outcome.")),
      request_seconds_(Histograms(registry_, "fermata_request_seconds",
                                  "Time from a call's arrival to its end, in seconds.")),
      http_connections_(OneGauge(registry_, "fermata_http_connections",
                                 "Connections that are open now, those that wait included.")),
      turns_(Counters(registry_, "fermata_turns_total",
                      "Turns that ended in good order, by finish reason.")),
      turn_seconds_(OneHistogram(registry_, "fermata_turn_seconds",
                                 "Time from a turn's arrival to its end, in seconds.",
                                 CallSeconds())),
      queue_seconds_(
          Histograms(registry_, "fermata_queue_seconds",
                     "Time from a turn's arrival to its first step, in seconds, by priority.")),
      prefill_seconds_(OneHistogram(registry_, "fermata_prefill_seconds",
                                    "Time from a turn's first step to its first token, in seconds.",
                                    CallSeconds())),
      first_token_seconds_(OneHistogram(
          registry_, "fermata_time_to_first_token_seconds",
          "Time from a turn's arrival to its first token, in seconds.", FirstTokenSeconds())),
      decode_seconds_(OneHistogram(registry_, "fermata_decode_seconds",
                                   "Time from a turn's first token to its last, in seconds.",
                                   CallSeconds())),
      inter_token_seconds_(OneHistogram(registry_, "fermata_inter_token_seconds",
                                        "Time between two tokens of one turn, in seconds.",
                                        InterTokenSeconds())),
      turn_prompt_tokens_(OneHistogram(registry_, "fermata_turn_prompt_tokens",
                                       "Tokens of one turn's prompt, those known included.",
                                       TokenCounts())),
      turn_generated_tokens_(OneHistogram(registry_, "fermata_turn_generated_tokens",
                                          "Tokens that one turn sampled.", TokenCounts())),
      tokens_in_(Tokens(registry_, "in")),
      tokens_out_(Tokens(registry_, "out")),
      scored_tokens_(OneCounter(registry_, "fermata_scored_tokens_total",
                                "Tokens of the texts that Score has finished, contexts included.")),
      batch_size_(OneHistogram(registry_, "fermata_batch_size",
                               "Sequences in one step of the model.", BatchSizes())),
      step_seconds_(OneHistogram(
          registry_, "fermata_step_seconds",
          "Duration of one step of the model, sampling included, in seconds.", StepSeconds())),
      forward_seconds_(OneHistogram(registry_, "fermata_forward_seconds",
                                    "Time of one step in the model's forward pass, in seconds.",
                                    StepSeconds())),
      choosing_seconds_(OneHistogram(
          registry_, "fermata_choosing_seconds",
          "Time of one step in choosing tokens and scoring texts, in seconds.", StepSeconds())),
      step_prompt_tokens_(OneHistogram(registry_, "fermata_step_prompt_tokens",
                                       "Prompt tokens that one step consumed, if there were any.",
                                       TokenCounts())),
      step_prompt_budget_(OneHistogram(registry_, "fermata_step_prompt_budget",
                                       "Prompt tokens that such a step could have consumed.",
                                       TokenCounts())),
      denominator_clamps_(
          OneCounter(registry_, "fermata_denominator_clamps_total",
                     "Denominators of linear attention that were held away from zero.")),
      restore_seconds_(Histograms(registry_, "fermata_session_restore_seconds",
                                  "Time until a session's state was there for its turn, in "
                                  "seconds, by the tier that it was in.")),
      persist_seconds_(OneHistogram(
          registry_, "fermata_session_persist_seconds",
          "Time until commits that are made durable together were, in seconds.", CallSeconds())),
      persist_commits_(OneHistogram(registry_, "fermata_session_persist_commits",
                                    "Commits that were made durable together.", BatchSizes())),
      session_troubles_(Counters(registry_, "fermata_session_troubles_total",
                                 "Damage and failures of the sessions' tiers, by reason.")) {
  for (const FinishReason reason : kFinishReasons) {
    turns_.Add({{"finish_reason", FinishReasonName(reason)}});
  }
  for (const char* priority : kPriorities) {
    queue_seconds_.Add({{"priority", priority}}, CallSeconds());
  }
  for (const char* trouble : kTroubles) session_troubles_.Add({{"reason", trouble}});
  OneGauge(registry_, "fermata_build_info", "Always 1; the labels say what runs.",
           {{"version", Version()}})
      .Set(1);
  OneGauge(registry_, "process_start_time_seconds",
           "When the server started, in seconds since 1970.")
      .Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
}

void Metrics::RequestDone(FrontKind front, std::string_view method, std::string_view outcome,
                          absl::Duration duration) {
  const prometheus::Labels call = {{"front", FrontName(front)}, {"method", std::string(method)}};
  request_seconds_.Add(call, CallSeconds()).Observe(absl::ToDoubleSeconds(duration));
  prometheus::Labels ended = call;
  ended["outcome"] = outcome;
  requests_.Add(ended).Increment();
}

void Metrics::SetHttpConnections(int connections) { http_connections_.Set(connections); }

void Metrics::SessionRestored(std::string_view tier, absl::Duration duration) {
  restore_seconds_.Add({{"tier", std::string(tier)}}, RestoreSeconds())
      .Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::SessionsPersisted(int64_t commits, absl::Duration duration) {
  persist_seconds_.Observe(absl::ToDoubleSeconds(duration));
  persist_commits_.Observe(static_cast<double>(commits));
}

void Metrics::SessionTrouble(std::string_view reason) {
  session_troubles_
      .Add({{"reason", absl::AsciiStrToLower(absl::string_view(reason.data(), reason.size()))}})
      .Increment();
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  AppendProcessMetrics(families);
  if (const std::optional<ServingStats> stats = stats_(); stats.has_value()) {
    AppendServingGauges(*stats, families);
    if (vllm_names_) AppendVllmNames(stats->model->name, families);
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

void Metrics::StepDone(const StepStats& step) {
  batch_size_.Observe(static_cast<double>(step.sequences));
  step_seconds_.Observe(absl::ToDoubleSeconds(step.duration));
  forward_seconds_.Observe(absl::ToDoubleSeconds(step.forward));
  choosing_seconds_.Observe(absl::ToDoubleSeconds(step.choosing));
  if (step.prompt_tokens > 0) {
    tokens_in_.Increment(static_cast<double>(step.prompt_tokens));
    step_prompt_tokens_.Observe(static_cast<double>(step.prompt_tokens));
    step_prompt_budget_.Observe(static_cast<double>(step.prompt_budget));
  }
  if (step.denominator_clamps > 0) {
    denominator_clamps_.Increment(static_cast<double>(step.denominator_clamps));
  }
}

void Metrics::TokenSampled(absl::Duration since_previous) {
  tokens_out_.Increment();
  inter_token_seconds_.Observe(absl::ToDoubleSeconds(since_previous));
}

void Metrics::FirstToken(absl::Duration since_arrival) {
  tokens_out_.Increment();
  first_token_seconds_.Observe(absl::ToDoubleSeconds(since_arrival));
}

void Metrics::TurnCompleted(const std::string&, const TurnResult& result) {
  const TurnTimings& timings = result.timings;
  turns_.Add({{"finish_reason", FinishReasonName(result.reason)}}).Increment();
  turn_seconds_.Observe(absl::ToDoubleSeconds(timings.total));
  queue_seconds_.Add({{"priority", PriorityName(result.priority)}}, CallSeconds())
      .Observe(absl::ToDoubleSeconds(timings.queue));
  prefill_seconds_.Observe(absl::ToDoubleSeconds(timings.prefill));
  if (timings.time_to_first_token.has_value()) {
    decode_seconds_.Observe(absl::ToDoubleSeconds(timings.decode));
  }
  turn_prompt_tokens_.Observe(result.prompt_tokens);
  turn_generated_tokens_.Observe(result.generated_tokens);
}

void Metrics::RequestFailed(const std::string&, const absl::Status&) {}

void Metrics::ScoreCompleted(const std::string&, int64_t tokens) {
  scored_tokens_.Increment(static_cast<double>(tokens));
}

}  // namespace fermata
