#include "client/bench/report.h"

#include <fstream>
#include <string_view>
#include <thread>

#include <sys/utsname.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fermata::bench {
namespace {

constexpr double kMilli = 1e3;
constexpr double kMiB = 1 << 20;

// Blocks of lines of a name and what it is.
class Table {
 public:
  template <typename... Args>
  void Line(std::string_view name, const absl::FormatSpec<Args...>& format, const Args&... args) {
    absl::StrAppendFormat(&text_, "%-18s", std::string(name));
    absl::StrAppendFormat(&text_, format, args...);
    text_ += "\n";
  }
  void Quantiles(std::string_view name, const bench::Quantiles& q) {
    Line(name, "%10.1f %10.1f %10.1f %10.1f %10.1f", kMilli * q.p50, kMilli * q.p90, kMilli * q.p95,
         kMilli * q.p99, kMilli * q.max);
  }
  void Gap() { text_ += "\n"; }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

void AddRequests(const LoadResult& result, Table& table) {
  const Summary& s = result.summary;
  std::string rest;
  const auto add = [&rest](int64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&rest, ", ", count, " ", what);
  };
  add(s.cut, "cut by the end");
  add(result.unsent, "never sent");
  add(s.warmup_requests, "of the warm-up beside");
  table.Line("requests", "%d sent, %d completed, %d failed%s", s.sent, s.completed, s.failed, rest);
  for (const auto& [kind, count] : s.failures) {
    table.Line("  failed", "%d × %s%s%s", count, kind.first, kind.second.empty() ? "" : " ",
               kind.second);
  }
  table.Line("tokens", "%d of prompts, %d generated", s.prompt_tokens, s.generated_tokens);
  table.Line("throughput", "%.2f requests/s, %.1f prompt tokens/s, %.1f generated tokens/s",
             s.requests_per_second, s.prompt_tokens_per_second, s.generated_tokens_per_second);
}

void AddGoodput(const Options& options, const Summary& s, Table& table) {
  if (!options.slo_ttft && !options.slo_itl) return;
  std::string goals;
  if (options.slo_ttft) {
    absl::StrAppend(&goals, " first token in ", absl::FormatDuration(*options.slo_ttft));
  }
  if (options.slo_itl) {
    absl::StrAppend(&goals, goals.empty() ? "" : ",", " tokens on average every ",
                    absl::FormatDuration(*options.slo_itl));
  }
  table.Line("goodput", "%.2f requests/s: %d requests with%s", s.good_per_second, s.good, goals);
}

void AddLatencies(const Summary& s, Table& table) {
  table.Line("milliseconds", "%10s %10s %10s %10s %10s", "p50", "p90", "p95", "p99", "max");
  table.Quantiles("first token", s.time_to_first_token);
  table.Quantiles("between tokens", s.inter_token);
  table.Quantiles("whole request", s.end_to_end);
  table.Quantiles("server's queue", s.server_queue);
  table.Quantiles("  its first token", s.server_time_to_first_token);
  table.Quantiles("own send delay", s.send_delay);
}

void AddServer(const ServerWatch& watch, Table& table) {
  const auto gauge = [&](std::string_view line, const std::string& name, double unit,
                         const char* of) {
    const auto end = watch.end.find(name);
    if (end == watch.end.end()) return;
    const auto begin = watch.begin.find(name);
    table.Line(line, "%.0f → %.0f%s, at most %.0f",
               begin == watch.begin.end() ? 0 : begin->second / unit, end->second / unit, of,
               watch.peak.at(name) / unit);
  };
  gauge("server memory", "process_resident_memory_bytes", kMiB, " MiB");
  gauge("server sessions", "fermata_sessions{tier=\"memory\"}", 1, "");
  gauge("  take", "fermata_session_bytes{tier=\"memory\"}", kMiB, " MiB");
}

}  // namespace

Machine ThisMachine() {
  Machine machine;
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  utsname name = {};
  if (uname(&name) == 0) machine.system = absl::StrCat(name.sysname, " ", name.release);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    machine.processor = line.substr(std::min(line.find(": ") + 2, line.size()));
    break;
  }
  return machine;
}

std::string FormatReport(const Report& report) {
  const LoadResult& result = report.result;
  const Summary& s = result.summary;
  Table table;
  table.Line("model", "%s (%s, %s), at %s", report.model.name(), report.model.family(),
             report.model.weights_dtype(), report.server);
  table.Line("measured", "%.1f s%s", s.seconds,
             result.ended_by == EndedBy::kInterrupt     ? ", then interrupted"
             : result.ended_by == EndedBy::kUnreachable ? ", until the server was gone for 10 s"
                                                        : "");
  AddRequests(result, table);
  AddGoodput(report.options, s, table);
  table.Gap();
  AddLatencies(s, table);
  table.Gap();
  if (report.options.sessions > 0) {
    table.Line("sessions", "%d turns resumed, %d began anew, %d requests waited for one",
               s.resumed_turns, s.lost_sessions, result.session_waits);
  }
  if (report.watch) AddServer(*report.watch, table);
  if (!report.note.empty()) table.Line("note", "%s", report.note);
  table.Line("this client", "%.2f of %d cores, at most %d requests at once",
             s.seconds > 0 ? result.cpu_seconds / s.seconds : 0, report.machine.cores,
             result.peak_in_flight);
  return table.text();
}

}  // namespace fermata::bench
