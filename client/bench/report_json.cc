#include <string_view>

#include "absl/strings/match.h"
#include "client/bench/report.h"

namespace fermata::bench {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json OrNull(const std::optional<absl::Duration>& duration) {
  return duration ? Json(absl::ToDoubleSeconds(*duration)) : Json(nullptr);
}

std::string_view LoadName(LoadKind load) {
  switch (load) {
    case LoadKind::kClosedLoop:
      return "closed_loop";
    case LoadKind::kPoisson:
      return "poisson";
    case LoadKind::kConstant:
      return "constant";
    case LoadKind::kTrace:
      return "trace";
  }
  return "";
}

std::string_view EndName(EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::kDuration:
      return "duration";
    case EndedBy::kRequests:
      return "requests";
    case EndedBy::kTrace:
      return "trace";
    case EndedBy::kInterrupt:
      return "interrupt";
    case EndedBy::kUnreachable:
      return "unreachable";
  }
  return "";
}

Json Settings(const Options& options) {
  Json json = {{"load", LoadName(options.load)}};
  if (options.load == LoadKind::kClosedLoop) {
    json["concurrency"] = options.concurrency;
    json["think_time"] = absl::ToDoubleSeconds(options.think_time);
  } else if (options.load == LoadKind::kTrace) {
    json["trace"] = options.trace;
    json["trace_speed"] = options.trace_speed;
  } else {
    json["rate"] = options.rate;
  }
  if (!options.prompts.empty()) {
    json["prompts"] = options.prompts;
  } else if (options.load != LoadKind::kTrace) {
    json["prompt_tokens"] = FormatTokenRange(options.prompt_tokens);
  }
  if (options.load != LoadKind::kTrace) {
    json["generate_tokens"] = FormatTokenRange(options.generate_tokens);
  }
  json["temperature"] = OrNull(options.temperature);
  json["top_k"] = OrNull(options.top_k);
  json["top_p"] = OrNull(options.top_p);
  json["sessions"] = options.sessions;
  json["session_turns"] = options.session_turns;
  json["session_zipf"] = options.session_zipf;
  json["open_sessions"] = options.open_sessions;
  json["duration"] = OrNull(options.duration);
  json["requests"] = OrNull(options.requests);
  json["warmup"] = absl::ToDoubleSeconds(options.warmup);
  json["grace"] = absl::ToDoubleSeconds(options.grace);
  json["seed"] = options.seed;
  json["connections"] = options.connections;
  return json;
}

Json ToJson(const Quantiles& q) {
  return {{"count", q.count}, {"mean", q.mean}, {"p50", q.p50}, {"p90", q.p90},
          {"p95", q.p95},     {"p99", q.p99},   {"max", q.max}};
}

Json Failures(const Summary& summary) {
  Json failures = Json::array();
  for (const auto& [kind, count] : summary.failures) {
    failures.push_back({{"code", kind.first}, {"reason", kind.second}, {"count", count}});
  }
  return failures;
}

Json Goodput(const Options& options, const Summary& summary) {
  if (!options.slo_ttft && !options.slo_itl) return nullptr;
  const int64_t tried = summary.sent - summary.cut;
  return {{"slo_ttft", OrNull(options.slo_ttft)},
          {"slo_itl", OrNull(options.slo_itl)},
          {"requests", summary.good},
          {"share", tried > 0 ? static_cast<double>(summary.good) / static_cast<double>(tried) : 0},
          {"requests_per_second", summary.good_per_second}};
}

Json ServerMetrics(const ServerWatch& watch) {
  const auto is_counter = [](std::string_view name) {
    return name.substr(0, name.find('{')).ends_with("_total");
  };
  Json gauges = Json::object();
  Json counters = Json::object();
  for (const auto& [name, value] : watch.end) {
    const auto before = watch.begin.find(name);
    const double begin = before == watch.begin.end() ? 0 : before->second;
    if (is_counter(name)) {
      counters[name] = value - begin;
    } else if (absl::StartsWith(name, "process_resident_memory_bytes") ||
               absl::StartsWith(name, "fermata_session")) {
      gauges[name] = {{"begin", begin}, {"peak", watch.peak.at(name)}, {"end", value}};
    }
  }
  return {{"gauges", gauges}, {"counters", counters}};
}

Json Server(const Report& report) {
  const v1::Model& model = report.model;
  const std::string version =
      report.watch ? LabelOf(report.watch->end, "fermata_build_info", "version") : "";
  return {{"address", report.server},
          {"version", version.empty() ? Json(nullptr) : Json(version)},
          {"model",
           {{"name", model.name()},
            {"family", model.family()},
            {"fingerprint", model.fingerprint()},
            {"weights_dtype", model.weights_dtype()},
            {"parameters", model.parameters()},
            {"num_layers", model.num_layers()},
            {"hidden_size", model.hidden_size()},
            {"vocab_size", model.vocab_size()},
            {"state_bytes", model.state_bytes()}}},
          {"metrics", report.watch ? ServerMetrics(*report.watch) : Json(nullptr)}};
}

}  // namespace

nlohmann::ordered_json ReportToJson(const Report& report) {
  const LoadResult& result = report.result;
  const Summary& s = result.summary;
  return {{"started", absl::FormatTime(absl::RFC3339_sec, report.started, absl::UTCTimeZone())},
          {"client_version", report.client_version},
          {"commit", report.commit},
          {"machine",
           {{"processor", report.machine.processor},
            {"cores", report.machine.cores},
            {"memory_bytes", report.machine.memory_bytes},
            {"system", report.machine.system}}},
          {"server", Server(report)},
          {"settings", Settings(report.options)},
          {"ended_by", EndName(result.ended_by)},
          {"seconds", s.seconds},
          {"requests",
           {{"sent", s.sent},
            {"completed", s.completed},
            {"failed", s.failed},
            {"cut", s.cut},
            {"unsent", result.unsent},
            {"warmup", s.warmup_requests}}},
          {"failures", Failures(s)},
          {"finish_reasons", s.finish_reasons},
          {"tokens",
           {{"prompt", s.prompt_tokens},
            {"generated", s.generated_tokens},
            {"received", s.received_tokens}}},
          {"throughput",
           {{"requests_per_second", s.requests_per_second},
            {"prompt_tokens_per_second", s.prompt_tokens_per_second},
            {"generated_tokens_per_second", s.generated_tokens_per_second}}},
          {"latency",
           {{"time_to_first_token", ToJson(s.time_to_first_token)},
            {"inter_token", ToJson(s.inter_token)},
            {"end_to_end", ToJson(s.end_to_end)},
            {"server_queue", ToJson(s.server_queue)},
            {"server_time_to_first_token", ToJson(s.server_time_to_first_token)}}},
          {"goodput", Goodput(report.options, s)},
          {"sessions",
           {{"resumed_turns", s.resumed_turns},
            {"lost", s.lost_sessions},
            {"waits", result.session_waits}}},
          {"client",
           {{"send_delay", ToJson(s.send_delay)},
            {"cpu_cores", s.seconds > 0 ? result.cpu_seconds / s.seconds : 0},
            {"peak_in_flight", result.peak_in_flight}}}};
}

}  // namespace fermata::bench
