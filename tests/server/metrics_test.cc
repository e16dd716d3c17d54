#include "server/metrics.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "prometheus/text_serializer.h"
#include "server/gauges.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

// Prometheus' text format, read by its own rules.
struct Exposition {
  std::map<std::string, std::string> types;     // By family.
  std::map<std::string, double> samples;        // By name and labels as they stand.
  std::map<std::string, std::string> families;  // Of each sample.
};

Exposition Parse(const std::string& text) {
  static const std::regex type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
  static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .+\.)");
  static const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="[^"\\\n]*",?)*\})? ([0-9.e+-]+|\+Inf|NaN))re");
  Exposition exposition;
  std::set<std::string> helped;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(helped.insert(match[1]).second) << "twice: " << line;
    } else if (std::regex_match(line, match, type)) {
      family = match[1];
      EXPECT_TRUE(helped.contains(family)) << line;
      EXPECT_TRUE(exposition.types.emplace(family, match[2]).second) << "twice: " << line;
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_TRUE(match[1].str().starts_with(family)) << line;
      const std::string key = match[1].str() + match[2].str();
      EXPECT_TRUE(exposition.samples.emplace(key, std::stod(match[4])).second) << "twice: " << line;
      exposition.families[key] = family;
    } else {
      ADD_FAILURE() << "not in the text format: " << line;
    }
  }
  return exposition;
}

ModelInfo Model() {
  ModelInfo model;
  model.name = "tale";
  model.family = "linear_attn";
  model.fingerprint = "0123";
  model.weights_dtype = "BF16";
  model.state_bytes = 1000;
  model.kv_equivalent_bytes_per_token = 64;
  return model;
}

// Every metric that a serving server shows.
std::string FullText() {
  ServingState serving;
  KeptAnswers answers({});
  Metrics metrics(&serving, &answers);
  metrics.RequestDone("Generate", "length", absl::Milliseconds(20));
  metrics.StepDone({.sequences = 3, .prompt_tokens = 7, .duration = absl::Milliseconds(2)});
  metrics.TurnCompleted("r", {});
  metrics.SessionRestored("disk", absl::Milliseconds(2));
  metrics.SessionsPersisted(3, absl::Milliseconds(2));
  metrics.SessionTrouble("SNAPSHOT_DAMAGED");
  std::vector<prometheus::MetricFamily> families;
  SessionStoreStats sessions;
  sessions.sessions = 2;
  sessions.positions = 40;
  sessions.checkpoints = 7;
  sessions.checkpoint_bytes = 7000;
  sessions.tiers = {{.tier = "memory",
                     .sessions = 2,
                     .usage = {.snapshots = 3, .states = 2, .bytes = 2500, .limit_bytes = 10000}},
                    {.tier = "disk",
                     .sessions = 9,
                     .usage = {.snapshots = 11, .states = 10, .bytes = 12000, .limit_bytes = 0}}};
  sessions.evictions = 5;
  sessions.expirations = 6;
  sessions.moves_down_pressure = 12;
  sessions.moves_down_drain = 13;
  sessions.moves_up_turn = 14;
  sessions.damaged = 15;
  const PrefixCache::Stats prefixes = {.states = 1,
                                       .bytes = 2,
                                       .limit_bytes = 3,
                                       .lookups = 4,
                                       .hits = 5,
                                       .hit_tokens = 6,
                                       .evictions = 7};
  AppendServingGauges(Model(),
                      {.load = {.running = 1, .queued = 4},
                       .sessions = sessions,
                       .prefixes = prefixes,
                       .answers = {.answers = 8, .bytes = 9, .limit_bytes = 10, .dropped = 11}},
                      families);
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return metrics.Text() + text.str();
}

TEST(MetricsTest, TextParsesAndNamesFollowTheRules) {
  const Exposition exposition = Parse(FullText());
  for (const auto& [family, type] : exposition.types) {
    EXPECT_TRUE(family.starts_with("fermata_") || family.starts_with("process_")) << family;
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

TEST(MetricsTest, EveryMetricIsInTheDocumentation) {
  const std::string path = std::string(std::getenv("FERMATA_SOURCE_DIR")) + "/docs/metrics.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream documentation;
  documentation << file.rdbuf();
  const Exposition exposition = Parse(FullText());
  for (const auto& [family, type] : exposition.types) {
    EXPECT_THAT(documentation.str(), HasSubstr("| `" + family + "` | " + type + " |"));
  }
  static const std::regex row(R"(\n\| `([a-z_]+)` \|)");
  const std::string text = documentation.str();
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    EXPECT_TRUE(exposition.types.contains((*it)[1])) << (*it)[1];
  }
}

TEST(MetricsTest, CountsWhatHappens) {
  ServingState serving;
  KeptAnswers answers({});
  Metrics metrics(&serving, &answers);
  metrics.RequestDone("Generate", "length", absl::Milliseconds(20));
  metrics.RequestDone("Generate", "length", absl::Milliseconds(30));
  metrics.RequestDone("Score", "invalid_field", absl::ZeroDuration());
  metrics.StepDone({.sequences = 3,
                    .prompt_tokens = 7,
                    .prompt_budget = 20,
                    .decode_tokens = 2,
                    .duration = absl::Milliseconds(4),
                    .forward = absl::Milliseconds(2),
                    .choosing = absl::Milliseconds(1),
                    .denominator_clamps = 4});
  metrics.StepDone({.sequences = 1, .decode_tokens = 1});
  metrics.FirstToken(absl::Milliseconds(15));
  metrics.TokenSampled(absl::Microseconds(1500));
  metrics.TokenSampled(absl::Microseconds(2500));
  TurnResult result;
  result.timings.queue = absl::Milliseconds(3);
  metrics.TurnCompleted("r", result);
  for (const int priority : {-10, -1, 1, 2, 10}) {
    result.priority = priority;
    metrics.TurnCompleted("r", result);
  }
  metrics.ScoreCompleted("r", 9);
  metrics.SessionRestored("disk", absl::Milliseconds(4));
  metrics.SessionRestored("memory", absl::Microseconds(15));
  metrics.SessionsPersisted(3, absl::Milliseconds(8));
  metrics.SessionTrouble("DISK_FULL");

  std::map<std::string, double> samples = Parse(metrics.Text()).samples;
  EXPECT_EQ(samples[R"(fermata_requests_total{method="Generate",outcome="length"})"], 2);
  EXPECT_EQ(samples[R"(fermata_requests_total{method="Score",outcome="invalid_field"})"], 1);
  EXPECT_EQ(samples[R"(fermata_request_seconds_count{method="Generate"})"], 2);
  EXPECT_DOUBLE_EQ(samples[R"(fermata_request_seconds_sum{method="Generate"})"], 0.05);
  EXPECT_EQ(samples[R"(fermata_request_seconds_bucket{method="Generate",le="0.02"})"], 1);
  EXPECT_EQ(samples[R"(fermata_tokens_total{direction="in"})"], 7);
  EXPECT_EQ(samples[R"(fermata_tokens_total{direction="out"})"], 3);
  EXPECT_EQ(samples["fermata_time_to_first_token_seconds_count"], 1);
  EXPECT_DOUBLE_EQ(samples["fermata_time_to_first_token_seconds_sum"], 0.015);
  EXPECT_EQ(samples["fermata_inter_token_seconds_count"], 2);
  EXPECT_EQ(samples[R"(fermata_inter_token_seconds_bucket{le="0.002"})"], 1);
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
  EXPECT_EQ(samples[R"(fermata_session_troubles_total{reason="disk_full"})"], 1);
  EXPECT_GT(samples["process_resident_memory_bytes"], 1e6);
  EXPECT_NEAR(samples["process_start_time_seconds"], static_cast<double>(time(nullptr)), 1000);
}

TEST(MetricsTest, GaugesTellSessionsAndTheirKvEquivalent) {
  std::map<std::string, double> samples = Parse(FullText()).samples;
  EXPECT_EQ(samples["fermata_running_requests"], 1);
  EXPECT_EQ(samples["fermata_queued_requests"], 4);
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
  EXPECT_EQ(samples["fermata_prefix_cache_limit_bytes"], 3);
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
  ServingState serving;
  KeptAnswers answers({});
  const std::string text = Metrics(&serving, &answers).Text();
  EXPECT_EQ(text.find("fermata_sessions{"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("fermata_build_info{version=\""));
}

}  // namespace
}  // namespace fermata
