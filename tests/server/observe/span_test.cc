#include "server/observe/span.h"

#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/observe/logging.h"

namespace fermata {
namespace {

std::string Logged(LogSpans spans, const TraceContext& trace) {
  SetUpLogging({.level = LogLevel::kInfo, .format = LogFormat::kJson, .spans = spans});
  testing::internal::CaptureStderr();
  LogSpan({.name = "prefill",
           .trace = &trace,
           .start = absl::UnixEpoch() + absl::Seconds(951782399) + absl::Microseconds(20),
           .duration = absl::Microseconds(1500),
           .front = "http",
           .outcome = "length",
           .request_id = "r"});
  return testing::internal::GetCapturedStderr();
}

TEST(SpanTest, IsOneEventWithAllThatACollectorNeeds) {
  const auto line = nlohmann::json::parse(
      Logged(LogSpans::kSampled,
             {.trace_id = "t", .span_id = "s", .parent_span_id = "p", .sampled = true}));
  EXPECT_EQ(line.at("event"), "span");
  EXPECT_EQ(line.at("name"), "prefill");
  EXPECT_EQ(line.at("trace_id"), "t");
  EXPECT_EQ(line.at("span_id"), "s");
  EXPECT_EQ(line.at("parent_span_id"), "p");
  EXPECT_EQ(line.at("start"), "2000-02-28T23:59:59.000020Z");
  EXPECT_DOUBLE_EQ(line.at("duration_seconds"), 0.0015);
  EXPECT_EQ(line.at("front"), "http");
  EXPECT_EQ(line.at("outcome"), "length");
  EXPECT_EQ(line.at("request_id"), "r");
}

TEST(SpanTest, IsLoggedWhereItIsWanted) {
  const TraceContext none;
  const TraceContext quiet = {.trace_id = "t", .span_id = "s", .parent_span_id = ""};
  TraceContext sampled = quiet;
  sampled.sampled = true;
  for (const LogSpans spans : {LogSpans::kSampled, LogSpans::kAll, LogSpans::kNone}) {
    EXPECT_EQ(Logged(spans, none), "");
    EXPECT_EQ(Logged(spans, quiet).empty(), spans != LogSpans::kAll);
    EXPECT_EQ(Logged(spans, sampled).empty(), spans == LogSpans::kNone);
  }
}

}  // namespace
}  // namespace fermata
