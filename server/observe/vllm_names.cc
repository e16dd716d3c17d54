#include "server/observe/vllm_names.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/scheduler/prefix.h"

namespace fermata {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// A figure of vLLM's, made of ours.
struct Figure {
  const char* name;
  const char* family;                     // The sum of all its samples,
  const char* label = nullptr;            // or of those of which this label
  std::string_view values;                // has one of these values, separated by commas.
  const char* finished_reason = nullptr;  // Becomes a label.
  const char* plus = nullptr;             // A family, all of which is added.
  const char* share_of = nullptr;         // A gauge, by which the sum is divided.
};

constexpr char kTokens[] = "fermata_tokens_total";
constexpr char kKnownTokens[] = "fermata_prefix_cache_hit_tokens_total";
constexpr char kRunning[] = "fermata_running_requests";
constexpr char kPlaces[] = "fermata_running_requests_limit";
constexpr char kTurns[] = "fermata_turns_total";
constexpr char kSuccess[] = "vllm:request_success_total";

// Figures of one name follow one another. vLLM counts as used what running requests hold, not what
// rests and could be dropped; hence the share of places.
constexpr Figure kFigures[] = {
    {"vllm:num_requests_running", kRunning},
    {"vllm:num_requests_waiting", "fermata_queued_requests"},
    {.name = "vllm:kv_cache_usage_perc", .family = kRunning, .share_of = kPlaces},
    {.name = "vllm:gpu_cache_usage_perc", .family = kRunning, .share_of = kPlaces},
    {"vllm:prompt_tokens_total", kTokens, "direction", "in"},
    {"vllm:generation_tokens_total", kTokens, "direction", "out"},
    {.name = "vllm:prefix_cache_queries_total",
     .family = kTokens,
     .label = "direction",
     .values = "in",
     .plus = kKnownTokens},
    {"vllm:prefix_cache_hits_total", kKnownTokens},
    {kSuccess, kTurns, "finish_reason", "stop,stop_token", "stop"},
    {kSuccess, kTurns, "finish_reason", "length", "length"},
    {kSuccess, kTurns, "finish_reason", "cancelled,time_limit,drained", "abort"},
    {"vllm:request_prompt_tokens", "fermata_turn_prompt_tokens"},
    {"vllm:request_generation_tokens", "fermata_turn_generated_tokens"},
    {"vllm:time_to_first_token_seconds", "fermata_time_to_first_token_seconds"},
    {"vllm:inter_token_latency_seconds", "fermata_inter_token_seconds"},
    {"vllm:time_per_output_token_seconds", "fermata_inter_token_seconds"},
    {"vllm:e2e_request_latency_seconds", "fermata_turn_seconds"},
    {"vllm:request_queue_time_seconds", "fermata_queue_seconds"},
    {"vllm:request_prefill_time_seconds", "fermata_prefill_seconds"},
    {"vllm:request_decode_time_seconds", "fermata_decode_seconds"},
};

// Null where it is not shown.
const MetricFamily* Find(const std::vector<MetricFamily>& families, std::string_view name) {
  const auto found = std::ranges::find(families, name, &MetricFamily::name);
  return found == families.end() ? nullptr : &*found;
}

// Whether `values` has `value`.
bool Has(std::string_view values, std::string_view value) {
  while (!values.empty()) {
    const size_t comma = std::min(values.find(','), values.size());
    if (values.substr(0, comma) == value) return true;
    values.remove_prefix(std::min(comma + 1, values.size()));
  }
  return false;
}

bool Wants(const Figure& figure, const ClientMetric& metric) {
  return figure.label == nullptr ||
         std::ranges::any_of(metric.label, [&figure](const ClientMetric::Label& label) {
           return label.name == figure.label && Has(figure.values, label.value);
         });
}

// Both of one family, whose histograms have the same buckets.
void Add(const ClientMetric& from, ClientMetric& to) {
  to.gauge.value += from.gauge.value;
  to.counter.value += from.counter.value;
  to.histogram.sample_count += from.histogram.sample_count;
  to.histogram.sample_sum += from.histogram.sample_sum;
  if (to.histogram.bucket.empty()) {
    to.histogram.bucket = from.histogram.bucket;
    return;
  }
  for (size_t i = 0; i < to.histogram.bucket.size(); ++i) {
    to.histogram.bucket[i].cumulative_count += from.histogram.bucket[i].cumulative_count;
  }
}

// Of a gauge with no labels; 0 where it is not shown.
double Value(const std::vector<MetricFamily>& families, const char* name) {
  const MetricFamily* family = Find(families, name);
  return family == nullptr ? 0 : family->metric.front().gauge.value;
}

ClientMetric Compute(const Figure& figure, const MetricFamily& ours,
                     const std::vector<MetricFamily>& families) {
  ClientMetric sum;
  for (const ClientMetric& metric : ours.metric) {
    if (Wants(figure, metric)) Add(metric, sum);
  }
  if (figure.plus != nullptr) {
    const MetricFamily* more = Find(families, figure.plus);
    if (more != nullptr) Add(more->metric.front(), sum);
  }
  if (figure.share_of != nullptr) {
    const double whole = Value(families, figure.share_of);
    sum.gauge.value = whole == 0 ? 0 : sum.gauge.value / whole;
  }
  return sum;
}

MetricFamily Info(const char* name, const char* help, double value,
                  std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return {name, help, MetricType::Gauge, {std::move(metric)}};
}

// What the endpoint picker reads of the cache's size. A block is one state of the prefix cache here,
// which keeps one for so many tokens of a prompt.
MetricFamily CacheConfig(const std::vector<MetricFamily>& families) {
  const double state_bytes = Value(families, "fermata_state_bytes_per_session");
  const double bytes = Value(families, "fermata_prefix_cache_limit_bytes");
  const int64_t states = state_bytes == 0 ? 0 : static_cast<int64_t>(bytes / state_bytes);
  return Info("vllm:cache_config_info", "Always 1; the labels tell of the prefix cache.", 1,
              {{"block_size", absl::StrCat(kPrefixInterval)},
               {"num_gpu_blocks", absl::StrCat(states)},
               {"engine", "0"}});
}

}  // namespace

void AppendVllmNames(const std::string& model_name, std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> theirs;
  for (const Figure& figure : kFigures) {
    const MetricFamily* ours = Find(families, figure.family);
    if (ours == nullptr) continue;
    ClientMetric metric = Compute(figure, *ours, families);
    metric.label = {{"model_name", model_name}, {"engine", "0"}};
    if (figure.finished_reason != nullptr) {
      metric.label.push_back({"finished_reason", figure.finished_reason});
    }
    if (theirs.empty() || theirs.back().name != figure.name) {
      theirs.push_back({figure.name, ours->help, ours->type, {}});
    }
    theirs.back().metric.push_back(std::move(metric));
  }
  theirs.push_back(CacheConfig(families));
  // No adapters: the picker reads that off empty lists, and complains where there is no such metric.
  theirs.push_back(
      Info("vllm:lora_requests_info", "Always 0: there are no adapters.", 0,
           {{"max_lora", "0"}, {"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}}));
  std::ranges::move(theirs, std::back_inserter(families));
}

}  // namespace fermata
