#ifndef FERMATA_CLIENT_BENCH_REPORT_H_
#define FERMATA_CLIENT_BENCH_REPORT_H_

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "client/bench/load.h"
#include "client/bench/options.h"
#include "client/bench/server_metrics.h"
#include "fermata/v1/models.pb.h"

namespace fermata::bench {

// The machine that the load came from.
struct Machine {
  std::string processor;
  int cores = 0;
  int64_t memory_bytes = 0;
  std::string system;  // Name and release of the kernel.
};
Machine ThisMachine();

// All that is told of a run.
struct Report {
  Options options;
  LoadResult result;
  v1::Model model;
  std::string server;  // Its address.
  std::string client_version;
  std::string commit;  // As the flag says; may be empty.
  absl::Time started;
  Machine machine;
  std::optional<ServerWatch> watch;  // None: without the server's metrics.
  std::string note;                  // Why there are none; may be empty.
};

// For people: lines of names and numbers.
std::string FormatReport(const Report& report);

// For programs. Times are in seconds, memory in bytes.
nlohmann::ordered_json ReportToJson(const Report& report);

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_REPORT_H_
