#include "engine/session/fsck.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace fermata::cli {
namespace {

std::string Verdict(const absl::Status& verdict) {
  return verdict.ok() ? "ok" : std::string(verdict.message());
}

std::string RowLine(const FsckRow& row) {
  std::string line = absl::StrFormat("%-28s  %-9s  %-32s  %12s  %14s  %s", row.file,
                                     std::string(row.role), row.session_id, Grouped(row.position),
                                     Grouped(row.bytes), Verdict(row.verdict));
  if (!row.moved_to.empty()) line += "; moved to " + row.moved_to;
  return line + "\n";
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void PrintTable(const FsckReport& report, const Io& io) {
  io.out << absl::StrFormat("%-28s  %-9s  %-32s  %12s  %14s  %s\n", "file", "role", "session",
                            "position", "bytes", "verdict");
  for (const FsckRow& row : report.rows) io.out << RowLine(row);
  io.out << Grouped(report.snapshots) << " whole snapshots of " << Grouped(report.sessions)
         << " sessions, " << Grouped(report.bytes) << " bytes in all; " << Grouped(report.bad)
         << " files are not as they should be\n";
  for (const auto& [model, snapshots] : report.models) {
    io.out << "model " << model << ": " << Grouped(snapshots) << " snapshots\n";
  }
  io.out << "index: " << (report.index.ok() ? "made anew" : Verdict(report.index)) << "\n";
}

// One object a file, then the sums.
void PrintJson(const FsckReport& report, const Io& io) {
  for (const FsckRow& row : report.rows) {
    io.out << Dump({{"file", row.file},
                    {"moved_to", row.moved_to},
                    {"role", std::string(row.role)},
                    {"session_id", row.session_id},
                    {"position", row.position},
                    {"bytes", row.bytes},
                    {"ok", row.verdict.ok()},
                    {"verdict", Verdict(row.verdict)}});
  }
  io.out << Dump({{"total",
                   {{"snapshots", report.snapshots},
                    {"sessions", report.sessions},
                    {"models", report.models},
                    {"bytes", report.bytes},
                    {"bad", report.bad},
                    {"index", Verdict(report.index)}}}});
}

}  // namespace

int RunFsck(const CommonOptions& common, const FsckCommand& command, const Io& io) {
  const absl::StatusOr<FsckReport> report =
      Fsck({.directory = command.directory, .set_aside = command.set_aside});
  if (!report.ok()) {
    if (common.json) io.out << ErrorJson(report.status()) << "\n";
    io.err << "fermata: " << report.status().message() << "\n";
    return kExitFailed;
  }
  if (common.json) {
    PrintJson(*report, io);
  } else {
    PrintTable(*report, io);
  }
  return report->bad == 0 && report->index.ok() ? kExitOk : kExitFailed;
}

}  // namespace fermata::cli
