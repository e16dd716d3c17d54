#include "tests/server/observe/exposition.h"

#include <regex>
#include <set>
#include <sstream>

#include "gtest/gtest.h"

namespace fermata {

Exposition ParseExposition(const std::string& text) {
  static const std::regex type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
  static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+\.))");
  static const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="[^"\\\n]*",?)*\})? ([0-9.e+-]+|\+Inf|NaN))re");
  Exposition exposition;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(exposition.helps.emplace(match[1], match[2]).second) << "twice: " << line;
    } else if (std::regex_match(line, match, type)) {
      family = match[1];
      EXPECT_TRUE(exposition.helps.contains(family)) << line;
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

ServingStats FullStats() {
  static const ModelInfo model = [] {
    ModelInfo info;
    info.name = "tale";
    info.family = "linear_attn";
    info.fingerprint = "0123";
    info.weights_dtype = "BF16";
    info.state_bytes = 1000;
    info.kv_equivalent_bytes_per_token = 64;
    return info;
  }();
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
  return {.model = &model,
          .load = {.running = 1, .queued = 4},
          .max_running = 5,
          .max_queued = 17,
          .sessions = sessions,
          .prefixes = {.states = 1,
                       .bytes = 2,
                       .limit_bytes = 3500,
                       .lookups = 4,
                       .hits = 5,
                       .hit_tokens = 6,
                       .evictions = 7},
          .answers = {.answers = 8, .bytes = 9, .limit_bytes = 10, .dropped = 11}};
}

void HaveAllHappen(Metrics& metrics) {
  metrics.RequestDone(FrontKind::kGrpc, "Generate", "length", absl::Milliseconds(20));
  metrics.RequestDone(FrontKind::kGrpc, "Generate", "length", absl::Milliseconds(30));
  metrics.RequestDone(FrontKind::kHttp, "Generate", "length", absl::Milliseconds(40));
  metrics.RequestDone(FrontKind::kGrpc, "Score", "invalid_field", absl::ZeroDuration());
  metrics.SetHttpConnections(3);
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
  result.reason = FinishReason::kStopToken;
  result.prompt_tokens = 9;
  result.generated_tokens = 3;
  result.timings = {.queue = absl::Milliseconds(3),
                    .prefill = absl::Milliseconds(12),
                    .time_to_first_token = absl::Milliseconds(15),
                    .decode = absl::Milliseconds(4),
                    .total = absl::Milliseconds(21)};
  metrics.TurnCompleted("r", result);
  // Turns that were cancelled before their first token.
  result = {.reason = FinishReason::kCancelled};
  for (const int priority : {-10, -1, 1, 2, 10}) {
    result.priority = priority;
    metrics.TurnCompleted("r", result);
  }
  metrics.ScoreCompleted("r", 9);
  metrics.SessionRestored("disk", absl::Milliseconds(4));
  metrics.SessionRestored("memory", absl::Microseconds(15));
  metrics.SessionsPersisted(3, absl::Milliseconds(8));
  metrics.SessionTrouble("DISK_FAILED");
}

}  // namespace fermata
