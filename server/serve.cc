#include "server/serve.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "server/calls/front.h"
#include "server/calls/serving_stats.h"
#include "server/config/model_path.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"
#include "server/http/operational_routes.h"
#include "server/observe/build_info.h"
#include "server/observe/load_log.h"
#include "server/observe/session_events.h"
#include "server/openai/routes.h"
#include "server/page/routes.h"
#include "server/rest/routes.h"

namespace fermata {
namespace {

// Calls of Tokenize and Detokenize that may wait.
constexpr size_t kMaxHelperTasks = 1024;
// Calls on sessions that may wait, and threads that answer them: they may wait for a disk.
constexpr size_t kMaxSessionTasks = 1024;
constexpr int kSessionThreads = 4;
// Exports and imports that run at once: each holds a snapshot in memory.
constexpr int kMaxTransfers = 16;
// After draining, for the last messages of streams to be taken by their readers.
constexpr absl::Duration kLastWrites = absl::Seconds(2);

// Each connection is a descriptor; the limit that a process starts with is often small.
void RaiseDescriptorLimit(int connections) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < static_cast<rlim_t>(connections)) {
    LogEvent(
        LogLevel::kWarning, "few_descriptors",
        {{"limit", static_cast<int64_t>(limit.rlim_max)}, {"http_max_connections", connections}});
  }
}

// Whole or not at all: a script that waits for the file must not read half of it.
absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port) {
  if (path.empty()) return absl::OkStatus();
  const std::string unfinished = path + ".tmp";
  {
    std::ofstream file(unfinished);
    file << "{\"grpc\": " << grpc_port << ", \"http\": " << http_port << "}\n";
  }
  if (std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--port_file: can not write ", path));
}

void LogServing(Runtime& runtime, OpenAiService& openai, absl::Duration load_time) {
  const ModelInfo& model = runtime.model();
  for (const DiskTier::Remark& remark : runtime.remarks()) {
    LogEvent(LogLevel::kWarning, "session_disk_remark",
             {{"path", remark.path}, {"remark", remark.what}});
  }
  for (const std::string& remark : model.remarks) {
    LogEvent(LogLevel::kWarning, "model_remark", {{"remark", remark}});
  }
  LogEvent(LogLevel::kInfo, "serving",
           {{"model", model.name},
            {"family", model.family},
            {"fingerprint", model.fingerprint},
            {"parameters", model.parameters},
            {"state_bytes", model.state_bytes},
            {"kv_equivalent_bytes_per_token", model.kv_equivalent_bytes_per_token},
            {"sessions", runtime.sessions().stats().sessions},
            {"load_seconds", absl::ToDoubleSeconds(load_time)}});
  const absl::StatusOr<const ChatTemplate*> chat = openai.chat_template(runtime);
  const std::string refusal(chat.status().message());
  LogEvent(LogLevel::kInfo, "chat_template",
           {{"name", chat.ok() ? (*chat)->name : "none"}, {"refusal", refusal}});
}

// Sends down what is in memory alone, so that it is there at the next start.
absl::Status FlushSessions(SessionStore& sessions) {
  const absl::Time start = absl::Now();
  const int64_t before = sessions.stats().moves_down_drain;
  const absl::Status status = sessions.Flush();
  const SessionStoreStats stats = sessions.stats();
  LogEvent(status.ok() ? LogLevel::kInfo : LogLevel::kError, "sessions_flushed",
           {{"written", stats.moves_down_drain - before},
            {"sessions", stats.sessions},
            {"seconds", absl::ToDoubleSeconds(absl::Now() - start)},
            {"message", std::string(status.message())}});
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("sessions that could not be written are lost: ",
                                                  status.message()));
}

}  // namespace

absl::Status Serve(const ServerConfig& given, Signals& signals) {
  ServerConfig config = given;
  FERMATA_ASSIGN_OR_RETURN(config.model_dir, ResolveModelDir(given.model_dir));
  config.openai.model_path = config.model_dir;

  // In the order in which they need one another; they end in the opposite one.
  ServingState serving;
  KeptAnswers answers(
      {.retention = config.answer_retention, .memory_bytes = config.answer_retention_bytes});
  Metrics metrics([&] { return StatsOf(serving, answers); }, config.vllm_metric_names);
  SessionEvents session_events(&metrics);
  TransferPlaces transfers(kMaxTransfers);
  std::unique_ptr<Runtime> runtime;
  Worker writer("stream-writer", 0);
  Worker helper("helper", kMaxHelperTasks);
  Worker session_calls("sessions", kMaxSessionTasks, kSessionThreads);
  const Front front = {.serving = &serving,
                       .metrics = &metrics,
                       .writer = &writer,
                       .helper = &helper,
                       .sessions = &session_calls,
                       .answers = &answers,
                       .transfers = &transfers,
                       .time_limits = config.time_limits,
                       .session_defaults = {.durability = config.session_durability,
                                            .max_checkpoints = config.session_checkpoints},
                       .stream_buffer_tokens = config.stream_buffer_tokens,
                       .max_message_bytes = static_cast<size_t>(config.max_message_bytes)};
  RaiseDescriptorLimit(config.http.max_connections);
  HttpRouter router;
  AddOperationalRoutes(serving, metrics, router);
  const auto openai = std::make_shared<OpenAiService>(front, config.openai);
  AddOpenAiRoutes(openai, router);
  AddRestRoutes(front, router);
  AddPageRoutes(front, router);

  FERMATA_ASSIGN_OR_RETURN(
      const auto http,
      HttpServer::Start(config.http, {.router = &router, .connections_changed = [&metrics](int n) {
                                        metrics.SetHttpConnections(n);
                                      }}));
  FERMATA_ASSIGN_OR_RETURN(const auto grpc, GrpcServer::Start(config, front));
  FERMATA_RETURN_IF_ERROR(WritePortFile(config.port_file, grpc->port(), http->port()));
  LogEvent(LogLevel::kInfo, "listening",
           {{"version", Version()},
            {"grpc_address", config.grpc_address},
            {"grpc_port", grpc->port()},
            {"http_address", config.http.address},
            {"http_port", http->port()}});

  const absl::Time start = absl::Now();
  LoadLog load_log;
  FERMATA_ASSIGN_OR_RETURN(runtime,
                           Runtime::Load(config, {.engine = &metrics, .sessions = &session_events},
                                         [&](const LoadProgress& progress) {
                                           serving.ReportLoading(progress);
                                           load_log.Report(progress, absl::Now());
                                         }));
  signals.HoldForStop();
  serving.StartServing(runtime.get());
  grpc->SetHealthy(true);
  LogServing(*runtime, *openai, absl::Now() - start);

  const char* signal = signals.WaitForStop();
  LogEvent(LogLevel::kInfo, "draining",
           {{"signal", signal}, {"grace_seconds", absl::ToDoubleSeconds(config.drain_grace)}});
  serving.StartDraining();
  grpc->SetHealthy(false);
  runtime->engine().Drain(config.drain_grace);
  grpc->Shutdown(kLastWrites);
  http->Shutdown(kLastWrites);
  const absl::Status flushed = FlushSessions(runtime->sessions());
  LogEvent(LogLevel::kInfo, "stopped", {});
  return flushed;
}

}  // namespace fermata
