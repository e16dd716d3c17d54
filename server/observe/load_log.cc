#include "server/observe/load_log.h"

#include "server/observe/logging.h"

namespace fermata {

bool LoadLog::Report(const LoadProgress& progress, absl::Time now) {
  if (now - last_ < kInterval) return false;
  last_ = now;
  LogEvent(LogLevel::kInfo, "loading",
           {{"phase", LoadPhaseName(progress.phase)},
            {"tensors", progress.tensors_done},
            {"of_tensors", progress.tensors},
            {"bytes", progress.bytes_done},
            {"of_bytes", progress.bytes}});
  return true;
}

}  // namespace fermata
