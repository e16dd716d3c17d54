#include "server/config/flags.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "engine/base/cpus.h"
#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class FlagsTest : public testing::Test {
 protected:
  // The configuration with `arguments` on the command line, by itself.
  static absl::StatusOr<ServerConfig> With(std::vector<std::string> arguments) {
    const absl::FlagSaver saver;
    const auto wish = ParseCommandLine(arguments, ServerFlags());
    if (!wish.ok()) return wish.status();
    return ConfigFromFlags();
  }
};

TEST_F(FlagsTest, DefaultsAreValid) {
  const auto config = With({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->session_tiers.memory_bytes, int64_t{1} << 30);
  EXPECT_FALSE(config->session_tiers.disk.has_value());
  EXPECT_FALSE(config->session_ttl.has_value());
  EXPECT_TRUE(config->compute_cpus.empty());
  EXPECT_EQ(config->session_durability, Durability::kMemory);
  EXPECT_EQ(config->session_checkpoints, 0);
  EXPECT_EQ(config->prefix_cache_bytes, 256 << 20);
  EXPECT_EQ(config->answer_retention, absl::Minutes(1));
  EXPECT_EQ(config->answer_retention_bytes, 64 << 20);
  EXPECT_EQ(config->time_limits.fallback, absl::Minutes(10));
  EXPECT_EQ(config->time_limits.longest, absl::Hours(1));
  EXPECT_EQ(config->max_message_bytes, 4 << 20);
}

TEST_F(FlagsTest, ValuesReachTheConfiguration) {
  const auto config = With({"--model_dir=/m",
                            "--weights=int8",
                            "--grpc_address=[::1]:0",
                            "--http_address=host.example:65535",
                            "--session_tiers=memory:64MiB,disk:/d?quota=1GiB",
                            "--session_durability=disk",
                            "--session_checkpoints=5",
                            "--prefix_cache=0",
                            "--answer_retention=0",
                            "--answer_retention_memory=1MiB",
                            "--session_ttl=1h",
                            "--max_running=3",
                            "--max_queued=0",
                            "--max_queued_per_tenant=7",
                            "--priority_ageing=2s",
                            "--step_time_target=20ms",
                            "--prefill_tokens_per_step=64",
                            "--prefill_form=chunkwise",
                            "--compute_threads=2",
                            "--default_time_limit=0",
                            "--max_time_limit=2m",
                            "--stream_buffer_tokens=9",
                            "--drain_grace=0",
                            "--log_level=warning",
                            "--log_format=json",
                            "--log_spans=all",
                            "--vllm_metric_names=true"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_dir, "/m");
  EXPECT_EQ(config->weights, WeightType::kInt8);
  EXPECT_EQ(config->grpc_address, "[::1]:0");
  EXPECT_EQ(config->http.address, "host.example:65535");
  EXPECT_EQ(config->session_tiers.memory_bytes, 64 << 20);
  ASSERT_TRUE(config->session_tiers.disk.has_value());
  EXPECT_EQ(config->session_tiers.disk->directory, "/d");
  EXPECT_EQ(config->session_tiers.disk->quota_bytes, 1 << 30);
  EXPECT_EQ(config->session_durability, Durability::kDisk);
  EXPECT_EQ(config->session_checkpoints, 5);
  EXPECT_EQ(config->prefix_cache_bytes, 0);
  EXPECT_EQ(config->answer_retention, absl::ZeroDuration());
  EXPECT_EQ(config->answer_retention_bytes, 1 << 20);
  EXPECT_EQ(config->session_ttl, absl::Hours(1));
  EXPECT_EQ(config->engine.max_running, 3);
  EXPECT_EQ(config->engine.max_queued, 0);
  EXPECT_EQ(config->engine.max_queued_per_tenant, 7);
  EXPECT_EQ(config->engine.priority_ageing, absl::Seconds(2));
  EXPECT_EQ(config->engine.step_time_target, absl::Milliseconds(20));
  EXPECT_EQ(config->engine.prefill_tokens_per_step, 64);
  EXPECT_EQ(config->engine.prefill_form, Form::kChunkwise);
  EXPECT_EQ(config->compute_threads, 2);
  EXPECT_EQ(config->time_limits.fallback, absl::Minutes(2));  // 0: the longest.
  EXPECT_EQ(config->time_limits.longest, absl::Minutes(2));
  EXPECT_EQ(config->stream_buffer_tokens, 9);
  EXPECT_EQ(config->drain_grace, absl::ZeroDuration());
  EXPECT_EQ(config->log.level, LogLevel::kWarning);
  EXPECT_EQ(config->log.format, LogFormat::kJson);
  EXPECT_EQ(config->log.spans, LogSpans::kAll);
  EXPECT_TRUE(config->vllm_metric_names);
}

// On a thread of its own, for it is kept on one CPU.
TEST_F(FlagsTest, ComputingFitsTheCpusThatTheProcessMayUse) {
  std::thread([] {
    const std::vector<int> all = AllowedCpus();
    const std::string last = std::to_string(all.back());
    auto config = With({"--compute_cpus=" + last});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->compute_cpus, std::vector<int>{all.back()});
    EXPECT_EQ(config->compute_threads, 1);
    config = With({"--compute_cpus=" + last, "--compute_threads=3"});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->compute_threads, 3);

    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(all.front(), &first);
    ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
    config = With({});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->compute_threads, 1);
    if (all.size() == 1) return;
    const auto refused = With({"--compute_cpus=" + last});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.status().message()),
                StartsWith("--compute_cpus: CPU " + last + " is none"));
  }).join();
}

TEST_F(FlagsTest, NoStepTimeTargetIsWithoutBound) {
  const auto config = With({"--step_time_target=0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->engine.step_time_target, absl::InfiniteDuration());
}

TEST_F(FlagsTest, NoLongestTimeLimitIsWithoutEnd) {
  const auto config = With({"--max_time_limit=0", "--default_time_limit=0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->time_limits.longest, absl::InfiniteDuration());
  EXPECT_EQ(config->time_limits.fallback, absl::InfiniteDuration());
}

TEST_F(FlagsTest, BadValuesAreRefusedByTheirFlagsName) {
  const char* bad[] = {
      "--grpc_address=7411",
      "--grpc_address=:7411",
      "--grpc_address=host:",
      "--grpc_address=host:65536",
      "--grpc_address=host:-1",
      "--grpc_address=::1:7411",
      "--grpc_address=[::1:7411",
      "--http_address=host:port",
      "--http_address=",
      "--session_tiers=",
      "--session_tiers=memory:lots",
      "--session_tiers=memory:1GiB,disk:/d?quotas=1GiB",
      "--session_durability=tape",
      "--session_durability=disk",  // There is none.
      "--session_checkpoints=-1",
      "--session_checkpoints=65",
      "--prefix_cache=-1",
      "--answer_retention=-1s",
      "--answer_retention=inf",
      "--answer_retention_memory=some",
      "--session_ttl=-1s",
      "--session_ttl=500ms",
      "--session_ttl=10",
      "--session_ttl=inf",
      "--max_running=0",
      "--max_running=5000",
      "--max_running=x",
      "--max_queued=-1",
      "--prefill_tokens_per_step=0",
      "--prefill_form=parallel",
      "--weights=int5",
      "--compute_threads=-1",
      "--compute_cpus=all",
      "--compute_cpus=0-",
      "--compute_cpus=1000000",
      "--default_time_limit=-1s",
      "--default_time_limit=2h",
      "--max_time_limit=-5m",
      "--stream_buffer_tokens=0",
      "--max_message_bytes=100",
      "--max_message_bytes=2GiB",
      "--drain_grace=-1s",
      "--drain_grace=inf",
      "--log_level=loud",
      "--log_format=xml",
      "--log_spans=some",
      "--keepalive_time=0",
      "--keepalive_timeout=2h",
      "--keepalive_min_ping_interval=0",
      "--max_queued_per_tenant=-1",
      "--priority_ageing=0",
      "--priority_ageing=inf",
      "--step_time_target=-1ms",
      "--step_time_target=inf",
  };
  for (const std::string argument : bad) {
    const auto config = With({argument});
    ASSERT_FALSE(config.ok()) << argument;
    const std::string name = argument.substr(0, argument.find('='));
    EXPECT_THAT(std::string(config.status().message()), StartsWith(name + ": ")) << argument;
    EXPECT_EQ(config.status().message().find('\n'), absl::string_view::npos) << argument;
  }
}

TEST_F(FlagsTest, EveryFlagIsInTheHelpAndInTheDocumentation) {
  const std::string path =
      std::string(std::getenv("FERMATA_SOURCE_DIR")) + "/docs/configuration.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  size_t listed = 0;
  for (const FlagGroup& group : ServerFlags()) {
    for (const std::string_view name : group.flags) {
      ++listed;
      const absl::CommandLineFlag* flag =
          absl::FindCommandLineFlag(absl::string_view(name.data(), name.size()));
      ASSERT_NE(flag, nullptr) << name;
      const std::string fallback = flag->DefaultValue();
      EXPECT_THAT(text.str(), HasSubstr("| `--" + std::string(name) + "` | " +
                                        (fallback.empty() ? "" : "`" + fallback + "` ") + "|"));
    }
  }
  size_t defined = 0;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    defined += flag->Filename().ends_with("flags.cc");
  }
  EXPECT_EQ(listed, defined);
}

}  // namespace
}  // namespace fermata
