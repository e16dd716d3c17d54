#ifndef FERMATA_ENGINE_BASE_CPUS_H_
#define FERMATA_ENGINE_BASE_CPUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

// Which processors this process may use, and which of them it computes on. CPUs are the system's
// numbers, in ascending order.

// Those that the calling thread may run on.
std::vector<int> AllowedCpus();

// What control groups (version 2) let this process use, in CPUs: the least `cpu.max` from its group up
// to the root of what it sees. Nullopt where there is no limit. The arguments are for tests.
std::optional<double> CpuQuota(const std::string& membership = "/proc/self/cgroup",
                               const std::string& root = "/sys/fs/cgroup");

// The threads that can run all the time on so many CPUs under `quota`, at least one: more of them
// would be stopped together whenever it is used up.
int UsableThreads(size_t cpus, std::optional<double> quota);

// A list as "0-3,8". INVALID_ARGUMENT that says what is wrong with it, and for a CPU that is not one of
// `allowed`.
absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text,
                                              const std::vector<int>& allowed);

// The CPUs that threads keep to while they compute; none (the default): wherever the system puts them.
// Call before the first ComputeCpusScope.
void SetComputeCpus(std::vector<int> cpus);

// Keeps the calling thread on the CPUs that compute, and for good the threads that are started from
// it: our own pool's and OpenMP's, which the first work for several threads starts. At the scope's end
// the calling thread goes back to where it was allowed before. Where the system refuses, nothing is
// changed.
class ComputeCpusScope {
 public:
  ComputeCpusScope();
  ~ComputeCpusScope();
  ComputeCpusScope(const ComputeCpusScope&) = delete;
  ComputeCpusScope& operator=(const ComputeCpusScope&) = delete;

 private:
  std::vector<int> before_;  // Empty: nothing to undo.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_CPUS_H_
