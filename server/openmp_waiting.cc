#include "server/openmp_waiting.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace fermata {

void MakeOpenMpSleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code error;
  // By its own name, which tools show.
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  execv(executable.c_str(), argv);
}

}  // namespace fermata
