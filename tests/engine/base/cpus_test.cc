#include "engine/base/cpus.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What runs on a thread of its own may change that thread's CPUs.
void OnThread(const std::function<void()>& body) { std::thread(body).join(); }

std::vector<int> CpusOfNewThread() {
  std::vector<int> cpus;
  OnThread([&cpus] { cpus = AllowedCpus(); });
  return cpus;
}

void KeepThreadOn(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

TEST(CpusTest, AllowedAreThoseThatTheSystemGives) {
  OnThread([] {
    EXPECT_EQ(AllowedCpus().size(), std::thread::hardware_concurrency());
    const int last = AllowedCpus().back();
    KeepThreadOn(last);
    EXPECT_THAT(AllowedCpus(), ElementsAre(last));
  });
}

TEST(CpusTest, AScopeMovesTheThreadAndThoseItStarts) {
  OnThread([] {
    const std::vector<int> before = AllowedCpus();
    for (const int cpu : {before.front(), before.back()}) {
      SetComputeCpus({cpu});
      {
        const ComputeCpusScope scope;
        EXPECT_THAT(AllowedCpus(), ElementsAre(cpu));
        EXPECT_EQ(sched_getcpu(), cpu);
        EXPECT_THAT(CpusOfNewThread(), ElementsAre(cpu));
      }
      EXPECT_EQ(AllowedCpus(), before);
      EXPECT_EQ(CpusOfNewThread(), before);
    }
    SetComputeCpus({});
    const ComputeCpusScope scope;
    EXPECT_EQ(AllowedCpus(), before);
  });
}

TEST(CpusTest, WhereTheSystemRefusesNothingChanges) {
  OnThread([] {
    const std::vector<int> before = AllowedCpus();
    SetComputeCpus({before.back() + 4096});
    {
      const ComputeCpusScope scope;
      EXPECT_EQ(AllowedCpus(), before);
    }
    EXPECT_EQ(AllowedCpus(), before);
    SetComputeCpus({});
  });
}

TEST(CpusTest, ListsAreNumbersAndRanges) {
  const std::vector<int> allowed = {0, 1, 2, 3, 5, 8};
  const auto list = [&](std::string_view text) { return *ParseCpuList(text, allowed); };
  EXPECT_THAT(list("3"), ElementsAre(3));
  EXPECT_THAT(list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(list("8,2,0-1,2"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(list("5-5"), ElementsAre(5));
  for (const auto& [text, why] : std::vector<std::pair<const char*, const char*>>{
           {"", "''"},
           {"1,", "''"},
           {"a", "'a'"},
           {"3-1", "'3-1'"},
           {"-1", "'-1'"},
           {"1-", "'1-'"},
           {"1-2-3", "'1-2-3'"},
           {"0x1", "'0x1'"},
           {"99999999999", "'99999999999'"},
           {"4", "CPU 4 is none of those that this process may use (0,1,2,3,5,8)"},
           {"2-2147483647", "CPU 4 "}}) {
    const auto cpus = ParseCpuList(text, allowed);
    ASSERT_FALSE(cpus.ok()) << text;
    EXPECT_TRUE(absl::IsInvalidArgument(cpus.status()));
    EXPECT_THAT(cpus.status().message(), HasSubstr(why));
  }
}

TEST(CpusTest, ThreadsFitTheQuota) {
  EXPECT_EQ(UsableThreads(8, std::nullopt), 8);
  EXPECT_EQ(UsableThreads(8, 2.0), 2);
  EXPECT_EQ(UsableThreads(8, 2.9), 2);
  EXPECT_EQ(UsableThreads(8, 0.5), 1);
  EXPECT_EQ(UsableThreads(2, 16.0), 2);
  EXPECT_EQ(UsableThreads(0, std::nullopt), 1);
}

class QuotaTest : public testing::Test {
 protected:
  QuotaTest() : root_(std::filesystem::path(testing::TempDir()) / "cpus_test_groups") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "a/b");
  }
  ~QuotaTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
  }
  // The quota of a process whose membership file says so.
  std::optional<double> Of(const std::string& membership) const {
    Write("membership", membership);
    return CpuQuota(root_ / "membership", root_);
  }

  const std::filesystem::path root_;
};

TEST_F(QuotaTest, IsTheLeastFromTheGroupToTheRoot) {
  EXPECT_EQ(Of("0::/a/b\n"), std::nullopt);
  Write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Of("0::/a/b\n"), std::nullopt);
  Write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Of("0::/a/b\n"), 1.5);
  Write("a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(Of("0::/a/b\n"), 1.5);
  Write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(Of("0::/a/b\n"), 0.5);
  EXPECT_EQ(Of("0::/a\n"), 1.5);
  EXPECT_EQ(Of("0::/\n"), std::nullopt);
}

// As a container sees it: its own group is the root.
TEST_F(QuotaTest, OfAContainerStandsAtTheRoot) {
  Write("cpu.max", "200000 100000\n");
  EXPECT_EQ(Of("12:cpu,cpuacct:/x\n0::/\n"), 2.0);
  EXPECT_EQ(Of("0::/../elsewhere\n"), 2.0);
}

TEST_F(QuotaTest, WhatIsNoQuotaIsNone) {
  for (const char* text : {"", "garbage", "max", "0 100000", "-5 100000", "100000 0", "100000"}) {
    Write("cpu.max", text);
    EXPECT_EQ(Of("0::/\n"), std::nullopt) << text;
  }
  EXPECT_EQ(CpuQuota(root_ / "missing", root_ / "missing"), std::nullopt);
}

}  // namespace
}  // namespace fermata
