#include "server/metrics.h"

#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "prometheus/text_serializer.h"
#include "server/build_info.h"
#include "server/gauges.h"

namespace fermata {
namespace {

using prometheus::Histogram;

// Steps of 1, 2, 5 in each decade: sums over them stay within a factor of 2.5.
const Histogram::BucketBoundaries& Seconds() {
  static const auto* buckets = new Histogram::BucketBoundaries{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
      1,      2,     5,     10,    20,   60,   120,  300, 600, 1800};
  return *buckets;
}

// For what happens once a step of the model.
const Histogram::BucketBoundaries& StepSeconds() {
  static const auto* buckets = new Histogram::BucketBoundaries{
      0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};
  return *buckets;
}

// A state in memory is there in microseconds; one on a disk in milliseconds.
const Histogram::BucketBoundaries& RestoreSeconds() {
  static const auto* buckets = new Histogram::BucketBoundaries{
      0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
      0.01,    0.02,    0.05,    0.1,    0.2,    0.5,    1,     2,     5};
  return *buckets;
}

const Histogram::BucketBoundaries& BatchSizes() {
  static const auto* buckets =
      new Histogram::BucketBoundaries{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  return *buckets;
}

const Histogram::BucketBoundaries& StepTokens() {
  static const auto* buckets =
      new Histogram::BucketBoundaries{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384};
  return *buckets;
}

const char* PriorityName(int32_t priority) {
  if (priority == 0) return "normal";
  return priority < 0 ? "low" : "high";
}

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<Histogram>& HistogramFamily(prometheus::Registry& registry, const char* name,
                                               const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Counter>& TokensFamily(prometheus::Registry& registry) {
  return CounterFamily(registry, "fermata_tokens_total",
                       "Tokens consumed from prompts and scored texts (in), and sampled (out).");
}

}  // namespace

Metrics::Metrics(const ServingState* serving, KeptAnswers* answers)
    : serving_(serving),
      answers_(answers),
      requests_(CounterFamily(registry_, "fermata_requests_total",
                              "Calls that have ended, by method and outcome.")),
      request_seconds_(HistogramFamily(registry_, "fermata_request_seconds",
                                       "Time from a call's arrival to its end.")),
      tokens_in_(TokensFamily(registry_).Add({{"direction", "in"}})),
      tokens_out_(TokensFamily(registry_).Add({{"direction", "out"}})),
      first_token_seconds_(HistogramFamily(registry_, "fermata_time_to_first_token_seconds",
                                           "Time from a turn's arrival to its first token.")
                               .Add({}, Seconds())),
      inter_token_seconds_(HistogramFamily(registry_, "fermata_inter_token_seconds",
                                           "Time between two tokens of one turn.")
                               .Add({}, StepSeconds())),
      queue_seconds_(HistogramFamily(registry_, "fermata_queue_seconds",
                                     "Time from a turn's arrival to its first step, by priority.")),
      batch_size_(
          HistogramFamily(registry_, "fermata_batch_size", "Sequences in one step of the model.")
              .Add({}, BatchSizes())),
      step_seconds_(HistogramFamily(registry_, "fermata_step_seconds",
                                    "Duration of one step of the model, sampling included.")
                        .Add({}, StepSeconds())),
      forward_seconds_(HistogramFamily(registry_, "fermata_forward_seconds",
                                       "Time of one step in the model's forward pass.")
                           .Add({}, StepSeconds())),
      choosing_seconds_(HistogramFamily(registry_, "fermata_choosing_seconds",
                                        "Time of one step in choosing tokens and scoring texts.")
                            .Add({}, StepSeconds())),
      prompt_tokens_(HistogramFamily(registry_, "fermata_step_prompt_tokens",
                                     "Prompt tokens that one step consumed, if there were any.")
                         .Add({}, StepTokens())),
      prompt_budget_(HistogramFamily(registry_, "fermata_step_prompt_budget",
                                     "Prompt tokens that such a step could have consumed.")
                         .Add({}, StepTokens())),
      scored_tokens_(
          CounterFamily(registry_, "fermata_scored_tokens_total",
                        "Tokens of the texts that Score has finished, contexts included.")
              .Add({})),
      denominator_clamps_(CounterFamily(registry_, "fermata_denominator_clamps_total",
                                        "Denominators of linear attention that were held away "
                                        "from zero.")
                              .Add({})),
      restore_seconds_(HistogramFamily(registry_, "fermata_session_restore_seconds",
                                       "Time until a session's state was there for its turn, by "
                                       "the tier that it was in.")),
      persist_seconds_(HistogramFamily(registry_, "fermata_session_persist_seconds",
                                       "Time until commits that are made durable together were.")
                           .Add({}, Seconds())),
      persist_commits_(HistogramFamily(registry_, "fermata_session_persist_commits",
                                       "Commits that were made durable together.")
                           .Add({}, BatchSizes())),
      session_troubles_(CounterFamily(registry_, "fermata_session_troubles_total",
                                      "Damage and failures of the sessions' tiers, by reason.")) {
  prometheus::BuildGauge()
      .Name("fermata_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(registry_)
      .Add({{"version", Version()}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("When the server started, in seconds since 1970.")
      .Register(registry_)
      .Add({})
      .Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
}

void Metrics::RequestDone(std::string_view method, std::string_view outcome,
                          absl::Duration duration) {
  const std::string name(method);
  requests_.Add({{"method", name}, {"outcome", std::string(outcome)}}).Increment();
  request_seconds_.Add({{"method", name}}, Seconds()).Observe(absl::ToDoubleSeconds(duration));
}

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
  AppendProcessGauges(families);
  if (const absl::StatusOr<Runtime*> runtime = serving_->runtime(); runtime.ok()) {
    const PrefixCache* prefixes = (*runtime)->prefixes();
    const ServingStats stats = {
        .load = (*runtime)->engine().load(),
        .sessions = (*runtime)->sessions().stats(),
        .prefixes = prefixes == nullptr ? PrefixCache::Stats() : prefixes->stats(),
        .answers = answers_->stats()};
    AppendServingGauges((*runtime)->model(), stats, families);
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
    prompt_tokens_.Observe(static_cast<double>(step.prompt_tokens));
    prompt_budget_.Observe(static_cast<double>(step.prompt_budget));
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
  queue_seconds_.Add({{"priority", PriorityName(result.priority)}}, Seconds())
      .Observe(absl::ToDoubleSeconds(result.timings.queue));
}

void Metrics::RequestFailed(const std::string&, const absl::Status&) {}

void Metrics::ScoreCompleted(const std::string&, int64_t tokens) {
  scored_tokens_.Increment(static_cast<double>(tokens));
}

}  // namespace fermata
