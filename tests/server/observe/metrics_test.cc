#include "server/observe/metrics.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/observe/exposition.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

// Every metric that a serving server shows.
Exposition FullExposition() {
  Metrics metrics(FullStats, /*vllm_names=*/true);
  HaveAllHappen(metrics);
  return ParseExposition(metrics.Text());
}

bool IsOurs(const std::string& family) { return !family.starts_with("vllm:"); }

TEST(MetricsTest, TextParsesAndNamesFollowTheRules) {
  const Exposition exposition = FullExposition();
  for (const auto& [family, type] : exposition.types) {
    EXPECT_TRUE(family.starts_with("fermata_") || family.starts_with("process_") || !IsOurs(family))
        << family;
    EXPECT_EQ(family.ends_with("_total"), type == "counter") << family;
    for (const char* unit : {"_ms", "_milliseconds", "_kilobytes", "_mb", "_micros"}) {
      EXPECT_EQ(family.find(unit), std::string::npos) << family;
    }
  }
  for (const auto& [sample, family] : exposition.families) {
    EXPECT_EQ(sample.find("session_id"), std::string::npos) << sample;
    EXPECT_EQ(sample.find("request_id"), std::string::npos) << sample;
  }
}

TEST(MetricsTest, HelpTellsTheUnit) {
  for (const auto& [family, help] : FullExposition().helps) {
    if (family.find("_seconds") != std::string::npos) {
      EXPECT_THAT(help, HasSubstr("in seconds")) << family;
    }
    if (family.find("_bytes") != std::string::npos) {
      EXPECT_THAT(help, HasSubstr("ytes")) << family;
    }
  }
}

TEST(MetricsTest, EveryMetricIsInTheDocumentation) {
  const std::string path = std::string(std::getenv("FERMATA_SOURCE_DIR")) + "/docs/metrics.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream documentation;
  documentation << file.rdbuf();
  const std::string text = documentation.str();
  const Exposition exposition = FullExposition();
  for (const auto& [family, type] : exposition.types) {
    EXPECT_THAT(text, HasSubstr("| `" + family + "` | " + type + " |"));
  }
  static const std::regex row(R"(\n\| `([a-z_0-9:]+)` \| [a-z]+ \| ([a-z0-9]+) \|)");
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    const std::string family = (*it)[1];
    const std::string unit = (*it)[2];
    EXPECT_TRUE(exposition.types.contains(family)) << family;
    EXPECT_EQ(family.find("_seconds") != std::string::npos, unit == "seconds") << family;
    EXPECT_EQ(family.find("_bytes") != std::string::npos, unit == "bytes") << family;
  }
}

// The upper bounds of a histogram's buckets, without the last, which is infinite.
std::vector<double> BoundsOf(const Exposition& exposition, const std::string& family) {
  const std::string begin = family + "_bucket{le=\"";
  std::vector<double> bounds;
  for (const auto& [sample, value] : exposition.samples) {
    if (!sample.starts_with(begin) || sample.find("+Inf") != std::string::npos) continue;
    bounds.push_back(std::stod(sample.substr(begin.size())));
  }
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

TEST(MetricsTest, BucketsAreAsStated) {
  const Exposition exposition = FullExposition();
  // Those of vLLM, which dashboards and goals for many servers are made of.
  EXPECT_THAT(BoundsOf(exposition, "fermata_time_to_first_token_seconds"),
              testing::ElementsAre(.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5,
                                   7.5, 10, 20, 40, 80, 160));
  const std::vector<double> gaps = BoundsOf(exposition, "fermata_inter_token_seconds");
  EXPECT_EQ(gaps.front(), .0005);
  EXPECT_EQ(gaps.back(), 2.5);
  // Fine enough for a quantile to mean something.
  for (size_t i = 1; i < gaps.size(); ++i) EXPECT_LE(gaps[i], 2.6 * gaps[i - 1]);
}

TEST(MetricsTest, CountsWhatHappens) {
  Metrics metrics([] { return std::nullopt; });
  HaveAllHappen(metrics);
  std::map<std::string, double> samples = ParseExposition(metrics.Text()).samples;
  const std::string grpc = R"(front="grpc",method="Generate")";
  const std::string http = R"(front="http",method="Generate")";
  EXPECT_EQ(samples["fermata_requests_total{" + grpc + ",outcome=\"length\"}"], 2);
  EXPECT_EQ(samples["fermata_requests_total{" + http + ",outcome=\"length\"}"], 1);
  EXPECT_EQ(
      samples[R"(fermata_requests_total{front="grpc",method="Score",outcome="invalid_field"})"], 1);
  EXPECT_EQ(samples["fermata_request_seconds_count{" + grpc + "}"], 2);
  EXPECT_DOUBLE_EQ(samples["fermata_request_seconds_sum{" + grpc + "}"], 0.05);
  EXPECT_DOUBLE_EQ(samples["fermata_request_seconds_sum{" + http + "}"], 0.04);
  EXPECT_EQ(samples["fermata_request_seconds_bucket{" + grpc + ",le=\"0.02\"}"], 1);
  EXPECT_EQ(samples["fermata_http_connections"], 3);
  EXPECT_EQ(samples[R"(fermata_turns_total{finish_reason="stop_token"})"], 1);
  EXPECT_EQ(samples[R"(fermata_turns_total{finish_reason="cancelled"})"], 5);
  EXPECT_EQ(samples.at(R"(fermata_turns_total{finish_reason="drained"})"), 0);
  EXPECT_DOUBLE_EQ(samples["fermata_turn_seconds_sum"], 0.021);
  EXPECT_EQ(samples["fermata_turn_seconds_count"], 6);
  EXPECT_DOUBLE_EQ(samples["fermata_prefill_seconds_sum"], 0.012);
  EXPECT_DOUBLE_EQ(samples["fermata_decode_seconds_sum"], 0.004);
  EXPECT_EQ(samples["fermata_decode_seconds_count"], 1);  // The others had no first token.
  EXPECT_EQ(samples["fermata_turn_prompt_tokens_sum"], 9);
  EXPECT_EQ(samples["fermata_turn_generated_tokens_sum"], 3);
  EXPECT_EQ(samples[R"(fermata_tokens_total{direction="in"})"], 7);
  EXPECT_EQ(samples[R"(fermata_tokens_total{direction="out"})"], 3);
  EXPECT_EQ(samples["fermata_time_to_first_token_seconds_count"], 1);
  EXPECT_DOUBLE_EQ(samples["fermata_time_to_first_token_seconds_sum"], 0.015);
  EXPECT_EQ(samples["fermata_inter_token_seconds_count"], 2);
  EXPECT_EQ(samples[R"(fermata_inter_token_seconds_bucket{le="0.001"})"], 0);
  EXPECT_EQ(samples[R"(fermata_inter_token_seconds_bucket{le="0.0025"})"], 2);
  EXPECT_DOUBLE_EQ(samples[R"(fermata_queue_seconds_sum{priority="normal"})"], 0.003);
  EXPECT_EQ(samples[R"(fermata_queue_seconds_count{priority="low"})"], 2);
  EXPECT_EQ(samples[R"(fermata_queue_seconds_count{priority="high"})"], 3);
  EXPECT_EQ(samples["fermata_batch_size_sum"], 4);
  EXPECT_DOUBLE_EQ(samples["fermata_step_seconds_sum"], 0.004);
  EXPECT_DOUBLE_EQ(samples["fermata_forward_seconds_sum"], 0.002);
  EXPECT_DOUBLE_EQ(samples["fermata_choosing_seconds_sum"], 0.001);
  EXPECT_EQ(samples["fermata_step_prompt_tokens_sum"], 7);
  EXPECT_EQ(samples["fermata_step_prompt_tokens_count"], 1);  // Steps that read nothing are not in.
  EXPECT_EQ(samples["fermata_step_prompt_budget_sum"], 20);
  EXPECT_EQ(samples["fermata_denominator_clamps_total"], 4);
  EXPECT_EQ(samples["fermata_scored_tokens_total"], 9);
  EXPECT_DOUBLE_EQ(samples[R"(fermata_session_restore_seconds_sum{tier="disk"})"], 0.004);
  EXPECT_EQ(samples[R"(fermata_session_restore_seconds_bucket{tier="memory",le="2e-05"})"], 1);
  EXPECT_DOUBLE_EQ(samples["fermata_session_persist_seconds_sum"], 0.008);
  EXPECT_EQ(samples["fermata_session_persist_commits_sum"], 3);
  EXPECT_EQ(samples[R"(fermata_session_troubles_total{reason="disk_failed"})"], 1);
  EXPECT_EQ(samples.at(R"(fermata_session_troubles_total{reason="snapshot_damaged"})"), 0);
}

TEST(MetricsTest, TellsOfTheProcess) {
  Metrics metrics([] { return std::nullopt; });
  const auto now = [&] { return ParseExposition(metrics.Text()).samples; };
  std::map<std::string, double> samples = now();
  EXPECT_GT(samples["process_resident_memory_bytes"], 1e6);
  EXPECT_GE(samples["process_virtual_memory_bytes"], samples["process_resident_memory_bytes"]);
  EXPECT_NEAR(samples["process_start_time_seconds"], static_cast<double>(time(nullptr)), 1000);
  EXPECT_GE(samples["process_open_fds"], 3);
  EXPECT_GE(samples["process_max_fds"], samples["process_open_fds"]);
  {
    const std::ifstream one_more("/dev/null");
    EXPECT_EQ(now()["process_open_fds"], samples["process_open_fds"] + 1);
  }
  // Until it shows, it is time on a CPU that passes.
  while (now()["process_cpu_seconds_total"] <= samples["process_cpu_seconds_total"]) {
  }
}

TEST(MetricsTest, GaugesTellSessionsAndTheirKvEquivalent) {
  std::map<std::string, double> samples = FullExposition().samples;
  EXPECT_EQ(samples["fermata_running_requests"], 1);
  EXPECT_EQ(samples["fermata_running_requests_limit"], 5);
  EXPECT_EQ(samples["fermata_queued_requests"], 4);
  EXPECT_EQ(samples["fermata_queued_requests_limit"], 17);
  EXPECT_EQ(samples[R"(fermata_sessions{tier="memory"})"], 2);
  EXPECT_EQ(samples[R"(fermata_session_bytes{tier="memory"})"], 2500);
  EXPECT_EQ(samples[R"(fermata_session_snapshots{tier="memory"})"], 3);
  EXPECT_EQ(samples[R"(fermata_session_limit_bytes{tier="memory"})"], 10000);
  EXPECT_EQ(samples[R"(fermata_sessions{tier="disk"})"], 9);
  EXPECT_EQ(samples[R"(fermata_session_bytes{tier="disk"})"], 12000);
  EXPECT_EQ(samples[R"(fermata_session_moves_total{direction="down",reason="pressure"})"], 12);
  EXPECT_EQ(samples[R"(fermata_session_moves_total{direction="down",reason="drain"})"], 13);
  EXPECT_EQ(samples[R"(fermata_session_moves_total{direction="up",reason="turn"})"], 14);
  EXPECT_EQ(samples["fermata_session_checkpoints"], 7);
  EXPECT_EQ(samples["fermata_session_checkpoint_bytes"], 7000);
  EXPECT_EQ(samples["fermata_session_damaged_total"], 15);
  EXPECT_EQ(samples["fermata_prefix_cache_states"], 1);
  EXPECT_EQ(samples["fermata_prefix_cache_bytes"], 2);
  EXPECT_EQ(samples["fermata_prefix_cache_limit_bytes"], 3500);
  EXPECT_EQ(samples["fermata_prefix_cache_lookups_total"], 4);
  EXPECT_EQ(samples["fermata_prefix_cache_hits_total"], 5);
  EXPECT_EQ(samples["fermata_prefix_cache_hit_tokens_total"], 6);
  EXPECT_EQ(samples["fermata_prefix_cache_evictions_total"], 7);
  EXPECT_EQ(samples["fermata_kept_answers"], 8);
  EXPECT_EQ(samples["fermata_kept_answer_bytes"], 9);
  EXPECT_EQ(samples["fermata_kept_answer_limit_bytes"], 10);
  EXPECT_EQ(samples["fermata_kept_answers_dropped_total"], 11);
  EXPECT_EQ(samples["fermata_session_evictions_total"], 5);
  EXPECT_EQ(samples["fermata_session_expirations_total"], 6);
  EXPECT_EQ(samples["fermata_state_bytes_per_session"], 1000);
  EXPECT_EQ(samples["fermata_session_state_bytes"], 2 * 1000);
  EXPECT_EQ(samples["fermata_session_kv_equivalent_bytes"], 40 * 64);
  EXPECT_EQ(samples["fermata_kv_equivalent_bytes_per_token"], 64);
  EXPECT_EQ(samples["fermata_break_even_tokens"], 15.625);
}

TEST(MetricsTest, NothingOfTheModelWhileItLoads) {
  const std::string text = Metrics([] { return std::nullopt; }, true).Text();
  EXPECT_EQ(text.find("fermata_sessions{"), std::string::npos);
  EXPECT_EQ(text.find("vllm:"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("fermata_build_info{version=\""));
}

}  // namespace
}  // namespace fermata
