#include "server/observe/trace_context.h"

#include <regex>
#include <set>
#include <string>

#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::MatchesRegex;

// The example of the specification.
constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";
const std::string kHeader = std::string("00-") + kTrace + "-" + kParent + "-";

// Nothing of `header` may be left in what comes of one that is refused.
void ExpectNew(std::optional<std::string_view> header) {
  const std::string shown(header.value_or("none"));
  const TraceContext context = TraceContext::FromHeader(header);
  EXPECT_THAT(context.trace_id, MatchesRegex("[0-9a-f]{32}")) << shown;
  EXPECT_NE(context.trace_id, std::string(32, '0')) << shown;
  EXPECT_NE(context.trace_id, kTrace) << shown;
  EXPECT_THAT(context.span_id, MatchesRegex("[0-9a-f]{16}")) << shown;
  EXPECT_EQ(context.parent_span_id, "") << shown;
  EXPECT_FALSE(context.sampled) << shown;
}

void ExpectTaken(const std::string& header, bool sampled) {
  const TraceContext context = TraceContext::FromHeader(header);
  EXPECT_EQ(context.trace_id, kTrace) << header;
  EXPECT_EQ(context.parent_span_id, kParent) << header;
  EXPECT_THAT(context.span_id, MatchesRegex("[0-9a-f]{16}")) << header;
  EXPECT_NE(context.span_id, kParent) << header;
  EXPECT_EQ(context.sampled, sampled) << header;
}

TEST(TraceContextTest, TakesUpTheCallersTrace) {
  ExpectTaken(kHeader + "01", true);
  ExpectTaken(kHeader + "00", false);
  // Bits that have no meaning yet are let be.
  ExpectTaken(kHeader + "ff", true);
  ExpectTaken(kHeader + "fe", false);
  ExpectTaken(kHeader + "09", true);
  ExpectTaken(kHeader + "a2", false);
}

TEST(TraceContextTest, BeginsATraceWhereThereIsNone) {
  ExpectNew(std::nullopt);
  ExpectNew("");
}

TEST(TraceContextTest, RefusesWhatBreaksTheRules) {
  const std::string good = kHeader + "01";
  for (size_t size = 0; size < good.size(); ++size) ExpectNew(good.substr(0, size));
  // Each byte matters, and capitals and spaces are none of what may be there.
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'g', 'A', ' ', '_', '\0', '\x80'}) {
      std::string bad = good;
      bad[i] = c;
      ExpectNew(bad);
    }
    std::string bad = good;
    bad[i] = good[i] == '-' ? '0' : '-';
    ExpectNew(bad);
  }
  ExpectNew(" " + good);
  ExpectNew(good + " ");
  ExpectNew(good + "-00");  // Version 00 has nothing behind the flags.
  ExpectNew(good + "0");
  ExpectNew("ff" + good.substr(2));
  ExpectNew("00-" + std::string(32, '0') + "-" + kParent + "-01");
  ExpectNew(std::string("00-") + kTrace + "-" + std::string(16, '0') + "-01");
}

TEST(TraceContextTest, ReadsLaterVersionsAsFarAsItKnowsThem) {
  const std::string later = "cc" + kHeader.substr(2);
  ExpectTaken(later + "01", true);
  ExpectTaken(later + "01-what-may-come", true);
  ExpectTaken(later + "00-", false);
  ExpectNew(later + "01.what-may-not");
  ExpectNew(later + "0");
  ExpectNew("FE" + kHeader.substr(2) + "01");
}

TEST(TraceContextTest, SpansDiffer) {
  std::set<std::string> ids;
  const TraceContext call = TraceContext::FromHeader(kHeader + "01");
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(ids.insert(TraceContext::FromHeader(std::nullopt).trace_id).second);
    const TraceContext part = call.Child();
    EXPECT_TRUE(ids.insert(part.span_id).second);
    EXPECT_EQ(part.trace_id, call.trace_id);
    EXPECT_EQ(part.parent_span_id, call.span_id);
    EXPECT_TRUE(part.sampled);
  }
}

}  // namespace
}  // namespace fermata
