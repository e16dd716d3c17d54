// `fermata bench`: load on a server, and what it makes of it.

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/bench/load.h"
#include "client/bench/report.h"
#include "client/bench/server_metrics.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"

namespace fermata::cli {
namespace {

constexpr char kMetricsOff[] = "off";
constexpr int kDeletingThreads = 4;

// What a run needs of files.
struct Inputs {
  std::vector<bench::Dialogue> prompts;
  std::vector<bench::TraceEntry> trace;
};

absl::StatusOr<Inputs> ReadInputs(const bench::Options& options, std::istream& in) {
  Inputs inputs;
  if (!options.prompts.empty()) {
    const auto text = ReadText({.file = options.prompts}, in);
    if (!text.ok()) return text.status();
    auto prompts = bench::ParsePrompts(**text, options.prompts);
    if (!prompts.ok()) return prompts.status();
    inputs.prompts = *std::move(prompts);
  }
  if (!options.trace.empty()) {
    const auto text = ReadText({.file = options.trace}, in);
    if (!text.ok()) return text.status();
    auto trace = bench::ParseTrace(**text, options.trace);
    if (!trace.ok()) return trace.status();
    inputs.trace = *std::move(trace);
  }
  return inputs;
}

// The server's metrics, as they are now.
struct Metrics {
  std::string url;
  bench::Samples samples;
};

// NOT_FOUND when there are none at the address that is only guessed.
absl::StatusOr<Metrics> FindMetrics(const bench::Options& options, const std::string& server,
                                    const std::string& fingerprint) {
  Metrics metrics;
  metrics.url = options.metrics_url;
  const bool guessed = metrics.url.empty();
  if (guessed) metrics.url = bench::DefaultMetricsUrl(server);
  if (guessed && metrics.url.empty()) return absl::NotFoundError("no --metrics-url");
  const auto page = bench::FetchPage(metrics.url);
  if (!page.ok()) {
    return guessed ? absl::NotFoundError(absl::StrCat("no metrics: ", page.status().message(),
                                                      " (--metrics-url names others)"))
                   : page.status();
  }
  metrics.samples = bench::ParseSamples(*page);
  if (bench::LabelOf(metrics.samples, "fermata_model_info", "fingerprint") == fingerprint) {
    return metrics;
  }
  const std::string why = absl::StrCat(metrics.url, ": the metrics of another server");
  return guessed ? absl::NotFoundError(why) : absl::FailedPreconditionError(why);
}

void ShowProgress(const bench::LoadProgress& now, Progress& progress) {
  progress.Show(now.share,
                absl::StrFormat("%.0fs  %d done, %d failed, %d at once, %d tokens", now.seconds,
                                now.ended - now.failed, now.failed, now.in_flight, now.tokens));
}

// One run, from the first look at the server to the last.
class Bench {
 public:
  Bench(const CommonOptions& common, const BenchCommand& command, const Io& io)
      : common_(common), options_(command.options), io_(io) {
    for (int i = 0; i < options_.connections; ++i) {
      clients_.push_back(std::make_unique<client::Client>(OptionsOf(common)));
    }
    report_.options = options_;
    report_.server = common.server;
    report_.client_version = FERMATA_VERSION;
    report_.commit = command.commit;
    report_.machine = bench::ThisMachine();
  }

  absl::StatusOr<bench::Report> Run() {
    auto inputs = ReadInputs(options_, io_.in);
    if (!inputs.ok()) return inputs.status();
    inputs_ = *std::move(inputs);
    const auto model = clients_[0]->GetModel();
    if (!model.ok()) return model.status();
    report_.model = *model;
    report_.started = absl::Now();
    MakePool();
    if (options_.open_sessions) {
      const absl::Status status = OpenSessions();
      if (!status.ok()) return status;
    }
    if (options_.metrics_url != kMetricsOff) {
      auto metrics = FindMetrics(options_, common_.server, model->fingerprint());
      if (absl::IsNotFound(metrics.status())) {
        report_.note = std::string(metrics.status().message());
      } else if (!metrics.ok()) {
        return metrics.status();
      } else {
        metrics_ = *std::move(metrics);
      }
    }
    Measure();
    return std::move(report_);
  }

 private:
  void MakePool() {
    if (options_.sessions == 0) return;
    sessions_ = std::make_unique<bench::SessionPool>(bench::SessionPoolOptions{
        .size = options_.sessions,
        .turns = options_.session_turns,
        .zipf = options_.session_zipf,
        .seed = options_.seed,
        .each_first = options_.open_sessions,
        // Not those of an earlier run that kept its sessions.
        .prefix = absl::StrCat("bench-", absl::Hex(absl::ToUnixMillis(report_.started)), "-")});
  }

  absl::Status OpenSessions() {
    const bench::Options options = bench::OpeningOf(options_);
    const bench::Clock clock;
    const auto arrivals = bench::MakeArrivals(options, {});
    const bench::RequestMaker requests(options, {}, report_.model);
    const bench::LoadResult result = RunLoad({.options = &options,
                                              .clock = &clock,
                                              .arrivals = arrivals.get(),
                                              .sessions = sessions_.get(),
                                              .requests = &requests});
    const int64_t opened = result.summary.completed;
    if (opened == options_.sessions) return absl::OkStatus();
    std::string why;
    for (const auto& [kind, count] : result.summary.failures) {
      absl::StrAppend(&why, ", ", count, " × ", kind.first, " ", kind.second);
    }
    return absl::AbortedError(
        absl::StrCat("only ", opened, " of ", options_.sessions, " sessions were opened", why));
  }

  void Measure() {
    const bench::Clock clock;
    std::unique_ptr<bench::MetricsWatcher> watcher;
    if (metrics_) {
      watcher =
          std::make_unique<bench::MetricsWatcher>(metrics_->url, std::move(metrics_->samples),
                                                  clock, absl::ToDoubleSeconds(options_.warmup));
    }
    const auto arrivals = bench::MakeArrivals(options_, inputs_.trace);
    const bench::RequestMaker requests(options_, std::move(inputs_.prompts), report_.model);
    bench::Load::Parts parts{.options = &options_,
                             .clock = &clock,
                             .arrivals = arrivals.get(),
                             .sessions = sessions_.get(),
                             .requests = &requests};
    if (!inputs_.trace.empty()) {
      parts.trace_seconds = inputs_.trace.back().seconds / options_.trace_speed;
    }
    report_.result = RunLoad(std::move(parts));
    if (watcher != nullptr) report_.watch = watcher->Stop();
    const bool there = report_.result.ended_by != bench::EndedBy::kUnreachable;
    if (sessions_ != nullptr && there && !options_.keep_sessions) Delete(sessions_->made());
  }

  bench::LoadResult RunLoad(bench::Load::Parts parts) {
    for (const auto& client : clients_) parts.clients.push_back(client.get());
    bench::Load load(parts);
    interrupts_.SetAction([&load] { load.Stop(); });
    Progress progress(io_.err, io_.err_is_terminal);
    bench::LoadResult result =
        load.Run([&](const bench::LoadProgress& now) { ShowProgress(now, progress); });
    interrupts_.SetAction(nullptr);
    return result;
  }

  // As far as they are still there.
  void Delete(const std::vector<std::string>& ids) {
    std::vector<std::thread> threads;
    for (size_t first = 0; first < kDeletingThreads; ++first) {
      threads.emplace_back([&, first] {
        for (size_t i = first; i < ids.size(); i += kDeletingThreads) {
          if (absl::IsUnavailable(clients_[0]->DeleteSession(ids[i]))) return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const CommonOptions& common_;
  const bench::Options& options_;
  const Io& io_;
  Interrupts interrupts_;  // Before any thread of gRPC's.
  std::vector<std::unique_ptr<client::Client>> clients_;
  Inputs inputs_;
  std::unique_ptr<bench::SessionPool> sessions_;  // None without --sessions.
  std::optional<Metrics> metrics_;
  bench::Report report_;
};

int ExitCode(const bench::Report& report) {
  if (report.result.ended_by == bench::EndedBy::kInterrupt) return kExitInterrupted;
  const bool any = report.result.summary.completed > 0;
  return any && report.result.ended_by != bench::EndedBy::kUnreachable ? kExitOk : kExitFailed;
}

}  // namespace

int RunBench(const CommonOptions& common, const BenchCommand& command, const Io& io) {
  const absl::StatusOr<bench::Report> report = Bench(common, command, io).Run();
  if (!report.ok()) return Fail(common, report.status(), io);
  const auto json = [&report](int indent) {
    return bench::ReportToJson(*report).dump(indent, ' ', false,
                                             nlohmann::ordered_json::error_handler_t::replace) +
           "\n";
  };
  io.out << (common.json ? json(-1) : bench::FormatReport(*report)) << std::flush;
  if (!command.output.empty()) {
    std::ofstream file(command.output, std::ios::binary);
    file << json(2);
    file.close();
    if (!file) {
      return Fail(common, absl::UnknownError(absl::StrCat("can not write ", command.output)), io);
    }
  }
  return ExitCode(*report);
}

}  // namespace fermata::cli
