#include "server/openmp_waiting.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace fermata {
namespace {

constexpr int kNoPolicy = 50;
constexpr int kPassive = 51;
constexpr int kOther = 52;

// What a process started with these variables, and no others of OpenMP's, sees in the end: this
// binary, started again with the test below alone.
int PolicySeenWith(const std::vector<std::pair<const char*, const char*>>& variables) {
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    std::string arguments[] = {"server", "--gtest_also_run_disabled_tests",
                               "--gtest_filter=OpenMpWaitingTest.DISABLED_TellsThePolicy"};
    char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
    MakeOpenMpSleep(argv);
    // It has returned: nothing was to be done.
    execv("/proc/self/exe", argv);
    _exit(1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OpenMpWaitingTest, DISABLED_TellsThePolicy) {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  if (policy == nullptr) _exit(kNoPolicy);
  _exit(std::string(policy) == "passive" ? kPassive : kOther);
}

TEST(OpenMpWaitingTest, IsPassiveUnlessTheEnvironmentSaysOtherwise) {
  EXPECT_EQ(PolicySeenWith({}), kPassive);
  EXPECT_EQ(PolicySeenWith({{"OMP_WAIT_POLICY", "passive"}}), kPassive);
  EXPECT_EQ(PolicySeenWith({{"OMP_WAIT_POLICY", "active"}}), kOther);
  EXPECT_EQ(PolicySeenWith({{"GOMP_SPINCOUNT", "1000"}}), kNoPolicy);
}

}  // namespace
}  // namespace fermata
