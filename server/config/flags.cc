#include "server/config/flags.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "engine/base/cpus.h"
#include "engine/base/status.h"
#include "server/config/byte_size.h"
#include "server/config/flag_checks.h"

ABSL_FLAG(std::string, model_dir, "",
          "The model: a directory as its authors publish it, or one file of weights. Default: "
          "$FERMATA_MODEL_DIR, or else the model that comes with the server.");
ABSL_FLAG(
    std::string, weights, "auto",
    "How weight matrices are held for multiplication: f32, bf16, int8, int4, or auto: as the "
    "file stores them, as far as the processor multiplies that well. docs/models.md says what "
    "each loses.");
ABSL_FLAG(
    int, compute_threads, 0,
    "Threads that one step of the model uses; 0 is one for each CPU that this process may use, "
    "no more than its control group's quota allows, or of --compute_cpus if given.");
ABSL_FLAG(std::string, compute_cpus, "",
          "CPUs that computing threads keep to, as 0-3,8. Empty: wherever the system puts them.");
ABSL_FLAG(
    std::string, prefill_form, "recurrent",
    "How prompts are computed: recurrent, or chunkwise (faster where feature maps are wide).");
ABSL_FLAG(int, prefill_tokens_per_step, 256,
          "Prompt tokens, over all requests, that one step consumes at most.");
ABSL_FLAG(absl::Duration, step_time_target, absl::Milliseconds(50),
          "How long a step should take at most while other requests wait for their next tokens: "
          "prompts are read in pieces that fit, of at least 16 tokens a step. 0 is without bound.");

ABSL_FLAG(std::string, grpc_address, "127.0.0.1:7411",
          "HOST:PORT that gRPC listens on; port 0 picks a free one.");
ABSL_FLAG(std::string, port_file, "",
          "File to write the ports to once both are bound, as JSON: {\"grpc\": 7411, \"http\": "
          "7412}. Empty: none.");
ABSL_FLAG(fermata::ByteSize, max_message_bytes, fermata::ByteSize{4 << 20},
          "Largest gRPC message, either way, in bytes or with KiB, MiB, GiB.");
ABSL_FLAG(absl::Duration, keepalive_time, absl::Minutes(1),
          "Silence after which a client is pinged, so that connections live through long prefills "
          "and dead ones are noticed.");
ABSL_FLAG(absl::Duration, keepalive_timeout, absl::Seconds(20),
          "Time that a client has to answer such a ping.");
ABSL_FLAG(absl::Duration, keepalive_min_ping_interval, absl::Seconds(10),
          "Clients that ping more often than this are cut off.");

ABSL_FLAG(
    std::string, session_tiers, "memory:1GiB",
    "Where sessions live: memory:SIZE, or memory:SIZE,disk:DIRECTORY, with "
    "?quota=SIZE&free_space_floor=SIZE behind the directory where wished. When memory is full, "
    "the least recently used session moves to disk; without one it is dropped.");
ABSL_FLAG(
    absl::Duration, session_ttl, absl::ZeroDuration(),
    "Time to live of sessions that name none, counted from their last use; 0 is without end.");
ABSL_FLAG(
    std::string, session_durability, "memory",
    "Where a turn must be before it is told as complete, for sessions that do not say: memory, "
    "or disk, which kill -9 and loss of power leave alone.");
ABSL_FLAG(int, session_checkpoints, 0,
          "Past turns' ends that a session which does not say keeps, to be rewound or forked to.");
ABSL_FLAG(
    fermata::ByteSize, prefix_cache, fermata::ByteSize{256 << 20},
    "Memory for states after known beginnings, so that a request which brings a long text anew "
    "need not be read anew. 0 is none.");
ABSL_FLAG(absl::Duration, answer_retention, absl::Minutes(1),
          "How long the answer to a request with a request_id is kept after its end, for clients "
          "that lost their connection. 0 keeps it only while the turn runs.");
ABSL_FLAG(fermata::ByteSize, answer_retention_memory, fermata::ByteSize{64 << 20},
          "Memory for such answers; when it is full the oldest go.");

ABSL_FLAG(int, max_running, 64, "Requests that run at once; each holds one state.");
ABSL_FLAG(int, max_queued, 256, "Requests that wait for a place; beyond that they are refused.");
ABSL_FLAG(int, max_queued_per_tenant, 0,
          "Requests of one tenant that wait for a place; 0 is no limit but max_queued.");
ABSL_FLAG(absl::Duration, priority_ageing, absl::Seconds(5),
          "Waiting time that raises a request in the queue by one level of priority.");
ABSL_FLAG(absl::Duration, default_time_limit, absl::Minutes(10),
          "Time limit of turns that name none, queueing included; 0 is max_time_limit.");
ABSL_FLAG(absl::Duration, max_time_limit, absl::Hours(1),
          "Longest time limit of a turn; longer ones are cut to it. 0 is without end.");
ABSL_FLAG(int, stream_buffer_tokens, 256,
          "Tokens that wait for a slow reader, for each stream, before its turn rests.");
ABSL_FLAG(absl::Duration, drain_grace, absl::Seconds(10),
          "Time that running turns have to finish after SIGTERM; then they end as DRAINED.");

ABSL_FLAG(std::string, log_level, "info", "Least level to log: debug, info, warning or error.");
ABSL_FLAG(std::string, log_format, "text", "Format of the log: text (key=value) or json.");
ABSL_FLAG(
    std::string, log_spans, "sampled",
    "Traces that leave their spans in the log: sampled, those whose caller asks for it by the "
    "flag of its traceparent; all; or none.");
ABSL_FLAG(bool, vllm_metric_names, false,
          "Whether /metrics shows figures under the names that vLLM has for them, too.");

namespace fermata {
namespace {

constexpr std::array<std::string_view, 7> kModelFlags = {
    "model_dir",       "weights",      "compute_threads",
    "compute_cpus",    "prefill_form", "prefill_tokens_per_step",
    "step_time_target"};
constexpr std::array<std::string_view, 6> kNetworkFlags = {
    "grpc_address",   "port_file",         "max_message_bytes",
    "keepalive_time", "keepalive_timeout", "keepalive_min_ping_interval"};
constexpr std::array<std::string_view, 7> kSessionFlags = {
    "session_tiers", "session_ttl",      "session_durability",     "session_checkpoints",
    "prefix_cache",  "answer_retention", "answer_retention_memory"};
constexpr std::array<std::string_view, 8> kTurnFlags = {
    "max_running",        "max_queued",     "max_queued_per_tenant", "priority_ageing",
    "default_time_limit", "max_time_limit", "stream_buffer_tokens",  "drain_grace"};
constexpr std::array<std::string_view, 4> kObserveFlags = {"log_level", "log_format", "log_spans",
                                                           "vllm_metric_names"};
constexpr std::array<FlagGroup, 7> kGroups = {{{"Model", kModelFlags},
                                               {"Network", kNetworkFlags},
                                               {"HTTP", kHttpFlags},
                                               {"OpenAI", kOpenAiFlags},
                                               {"Sessions", kSessionFlags},
                                               {"Turns", kTurnFlags},
                                               {"Logs and metrics", kObserveFlags}}};

absl::Status ReadCompute(ServerConfig& config) {
  std::vector<int> cpus = AllowedCpus();
  const std::string list = absl::GetFlag(FLAGS_compute_cpus);
  if (!list.empty()) {
    auto chosen = ParseCpuList(list, cpus);
    if (!chosen.ok()) return RefuseFlag("compute_cpus", std::string(chosen.status().message()));
    config.compute_cpus = *chosen;
    cpus = *std::move(chosen);
  }
  config.compute_threads = absl::GetFlag(FLAGS_compute_threads);
  FERMATA_RETURN_IF_ERROR(CheckInt("compute_threads", config.compute_threads, 0, 1024));
  if (config.compute_threads == 0) config.compute_threads = UsableThreads(cpus.size(), CpuQuota());
  return absl::OkStatus();
}

absl::Status ReadEngine(ServerConfig& config) {
  config.engine.max_running = absl::GetFlag(FLAGS_max_running);
  FERMATA_RETURN_IF_ERROR(CheckInt("max_running", config.engine.max_running, 1, 4096));
  config.engine.max_queued = absl::GetFlag(FLAGS_max_queued);
  FERMATA_RETURN_IF_ERROR(CheckInt("max_queued", config.engine.max_queued, 0, 1 << 20));
  config.engine.max_queued_per_tenant = absl::GetFlag(FLAGS_max_queued_per_tenant);
  FERMATA_RETURN_IF_ERROR(
      CheckInt("max_queued_per_tenant", config.engine.max_queued_per_tenant, 0, 1 << 20));
  config.engine.priority_ageing = absl::GetFlag(FLAGS_priority_ageing);
  FERMATA_RETURN_IF_ERROR(CheckDuration("priority_ageing", config.engine.priority_ageing,
                                        absl::Milliseconds(1), absl::Hours(24)));
  const absl::Duration step_time = absl::GetFlag(FLAGS_step_time_target);
  FERMATA_RETURN_IF_ERROR(
      CheckDuration("step_time_target", step_time, absl::ZeroDuration(), absl::Hours(1)));
  config.engine.step_time_target =
      step_time == absl::ZeroDuration() ? absl::InfiniteDuration() : step_time;
  config.engine.prefill_tokens_per_step = absl::GetFlag(FLAGS_prefill_tokens_per_step);
  FERMATA_RETURN_IF_ERROR(
      CheckInt("prefill_tokens_per_step", config.engine.prefill_tokens_per_step, 1, 1 << 16));
  FERMATA_ASSIGN_OR_RETURN(
      config.engine.prefill_form,
      Choose<Form>("prefill_form", absl::GetFlag(FLAGS_prefill_form),
                   {{"recurrent", Form::kRecurrent}, {"chunkwise", Form::kChunkwise}}));
  return ReadCompute(config);
}

absl::Status ReadNetwork(ServerConfig& config) {
  config.grpc_address = absl::GetFlag(FLAGS_grpc_address);
  FERMATA_RETURN_IF_ERROR(CheckAddress("grpc_address", config.grpc_address));
  config.port_file = absl::GetFlag(FLAGS_port_file);
  const int64_t message = absl::GetFlag(FLAGS_max_message_bytes).bytes;
  FERMATA_RETURN_IF_ERROR(CheckInt("max_message_bytes", message, 1 << 10, 1 << 30));
  config.max_message_bytes = static_cast<int>(message);

  KeepaliveOptions& keepalive = config.keepalive;
  keepalive = {.time = absl::GetFlag(FLAGS_keepalive_time),
               .timeout = absl::GetFlag(FLAGS_keepalive_timeout),
               .min_ping_interval = absl::GetFlag(FLAGS_keepalive_min_ping_interval)};
  FERMATA_RETURN_IF_ERROR(
      CheckDuration("keepalive_time", keepalive.time, absl::Seconds(1), absl::Hours(24)));
  FERMATA_RETURN_IF_ERROR(
      CheckDuration("keepalive_timeout", keepalive.timeout, absl::Seconds(1), absl::Hours(1)));
  return CheckDuration("keepalive_min_ping_interval", keepalive.min_ping_interval,
                       absl::Milliseconds(1), absl::Hours(24));
}

absl::Status ReadSessions(ServerConfig& config) {
  const absl::StatusOr<SessionTiers> tiers = ParseSessionTiers(absl::GetFlag(FLAGS_session_tiers));
  if (!tiers.ok()) return RefuseFlag("session_tiers", std::string(tiers.status().message()));
  config.session_tiers = *tiers;
  FERMATA_ASSIGN_OR_RETURN(
      config.session_durability,
      Choose<Durability>("session_durability", absl::GetFlag(FLAGS_session_durability),
                         {{"memory", Durability::kMemory}, {"disk", Durability::kDisk}}));
  if (config.session_durability == Durability::kDisk && !tiers->disk.has_value()) {
    return RefuseFlag("session_durability", "disk needs a disk among the --session_tiers");
  }
  config.session_checkpoints = absl::GetFlag(FLAGS_session_checkpoints);
  FERMATA_RETURN_IF_ERROR(
      CheckInt("session_checkpoints", config.session_checkpoints, 0, kMaxCheckpoints));
  const absl::Duration ttl = absl::GetFlag(FLAGS_session_ttl);
  if (ttl == absl::ZeroDuration()) return absl::OkStatus();
  config.session_ttl = ttl;
  return CheckDuration("session_ttl", ttl, absl::Seconds(1), absl::Hours(24 * 36500));
}

absl::Status ReadCaches(ServerConfig& config) {
  constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 2;
  config.prefix_cache_bytes = absl::GetFlag(FLAGS_prefix_cache).bytes;
  FERMATA_RETURN_IF_ERROR(CheckInt("prefix_cache", config.prefix_cache_bytes, 0, kMostBytes));
  config.answer_retention_bytes = absl::GetFlag(FLAGS_answer_retention_memory).bytes;
  FERMATA_RETURN_IF_ERROR(
      CheckInt("answer_retention_memory", config.answer_retention_bytes, 0, kMostBytes));
  config.answer_retention = absl::GetFlag(FLAGS_answer_retention);
  return CheckDuration("answer_retention", config.answer_retention, absl::ZeroDuration(),
                       absl::Hours(24));
}

absl::Status ReadTurns(ServerConfig& config) {
  const auto limit = [](absl::Duration value, absl::Duration unlimited) {
    return value == absl::ZeroDuration() ? unlimited : value;
  };
  TimeLimits& limits = config.time_limits;
  limits.longest = limit(absl::GetFlag(FLAGS_max_time_limit), absl::InfiniteDuration());
  limits.fallback = limit(absl::GetFlag(FLAGS_default_time_limit), limits.longest);
  FERMATA_RETURN_IF_ERROR(CheckDuration("max_time_limit", limits.longest, absl::Milliseconds(1),
                                        absl::InfiniteDuration()));
  FERMATA_RETURN_IF_ERROR(
      CheckDuration("default_time_limit", limits.fallback, absl::Milliseconds(1), limits.longest));
  config.stream_buffer_tokens = absl::GetFlag(FLAGS_stream_buffer_tokens);
  FERMATA_RETURN_IF_ERROR(
      CheckInt("stream_buffer_tokens", config.stream_buffer_tokens, 1, 1 << 20));
  config.drain_grace = absl::GetFlag(FLAGS_drain_grace);
  return CheckDuration("drain_grace", config.drain_grace, absl::ZeroDuration(), absl::Hours(24));
}

absl::Status ReadObserve(ServerConfig& config) {
  FERMATA_ASSIGN_OR_RETURN(config.log.level,
                           Choose<LogLevel>("log_level", absl::GetFlag(FLAGS_log_level),
                                            {{"debug", LogLevel::kDebug},
                                             {"info", LogLevel::kInfo},
                                             {"warning", LogLevel::kWarning},
                                             {"error", LogLevel::kError}}));
  FERMATA_ASSIGN_OR_RETURN(
      config.log.format,
      Choose<LogFormat>("log_format", absl::GetFlag(FLAGS_log_format),
                        {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}));
  FERMATA_ASSIGN_OR_RETURN(
      config.log.spans,
      Choose<LogSpans>(
          "log_spans", absl::GetFlag(FLAGS_log_spans),
          {{"sampled", LogSpans::kSampled}, {"all", LogSpans::kAll}, {"none", LogSpans::kNone}}));
  config.vllm_metric_names = absl::GetFlag(FLAGS_vllm_metric_names);
  return absl::OkStatus();
}

}  // namespace

std::span<const FlagGroup> ServerFlags() { return kGroups; }

absl::StatusOr<ServerConfig> ConfigFromFlags() {
  ServerConfig config;
  config.model_dir = absl::GetFlag(FLAGS_model_dir);
  FERMATA_ASSIGN_OR_RETURN(
      config.weights, Choose<std::optional<WeightType>>("weights", absl::GetFlag(FLAGS_weights),
                                                        {{"auto", std::nullopt},
                                                         {"f32", WeightType::kF32},
                                                         {"bf16", WeightType::kBf16},
                                                         {"int8", WeightType::kInt8},
                                                         {"int4", WeightType::kInt4}}));
  FERMATA_RETURN_IF_ERROR(ReadEngine(config));
  FERMATA_RETURN_IF_ERROR(ReadNetwork(config));
  FERMATA_ASSIGN_OR_RETURN(config.http, HttpFromFlags());
  FERMATA_ASSIGN_OR_RETURN(config.openai, OpenAiFromFlags());
  FERMATA_RETURN_IF_ERROR(ReadSessions(config));
  FERMATA_RETURN_IF_ERROR(ReadCaches(config));
  FERMATA_RETURN_IF_ERROR(ReadTurns(config));
  FERMATA_RETURN_IF_ERROR(ReadObserve(config));
  return config;
}

}  // namespace fermata
