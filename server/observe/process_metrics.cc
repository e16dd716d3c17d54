#include "server/observe/process_metrics.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

#include "server/observe/metric_writer.h"

namespace fermata {
namespace {

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The one that looks is counted too, as Prometheus' libraries do.
int64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : std::distance(begin(files), end(files));
}

}  // namespace

void AppendProcessMetrics(std::vector<prometheus::MetricFamily>& families) {
  MetricWriter writer(families);
  writer.Counter("process_cpu_seconds_total", "Time on CPUs, of user and system, in seconds.",
                 CpuSeconds());
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  writer.Gauge("process_resident_memory_bytes", "Memory of the process that is in RAM, in bytes.",
               resident * page_bytes);
  writer.Gauge("process_virtual_memory_bytes", "Address space of the process, in bytes.",
               pages * page_bytes);
  writer.Gauge("process_open_fds", "File descriptors that are open, connections included.",
               OpenFiles());
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  writer.Gauge("process_max_fds", "File descriptors that may be open.", limit.rlim_cur);
}

}  // namespace fermata
