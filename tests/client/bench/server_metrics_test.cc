#include "client/bench/server_metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ServerMetricsTest, ParsesSamples) {
  const Samples samples = ParseSamples(
      "# HELP a_total what it is\n# TYPE a_total counter\na_total{x=\"1 2\",y=\"b\"} 3\n"
      "b 1.5e3\nc{le=\"+Inf\"} 7\nnonsense\nd NotANumber\n");
  EXPECT_THAT(samples, ElementsAre(Pair("a_total{x=\"1 2\",y=\"b\"}", 3), Pair("b", 1500),
                                   Pair("c{le=\"+Inf\"}", 7)));
  EXPECT_EQ(LabelOf(samples, "a_total", "x"), "1 2");
  EXPECT_EQ(LabelOf(samples, "a_total", "y"), "b");
  EXPECT_EQ(LabelOf(samples, "a_total", "z"), "");
  EXPECT_EQ(LabelOf(samples, "b", "x"), "");
  EXPECT_EQ(LabelOf(samples, "a", "x"), "");
}

TEST(ServerMetricsTest, TheDefaultIsTheNextPort) {
  EXPECT_EQ(DefaultMetricsUrl("127.0.0.1:7411"), "http://127.0.0.1:7412/metrics");
  EXPECT_EQ(DefaultMetricsUrl("[::1]:80"), "http://[::1]:81/metrics");
  EXPECT_EQ(DefaultMetricsUrl("dns:///host"), "");
  EXPECT_EQ(DefaultMetricsUrl("host"), "");
}

TEST(ServerMetricsTest, RefusesWhatIsNoUrl) {
  for (const char* url : {"", "127.0.0.1:1/metrics", "https://h:1/", "http://", "http://h:x/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FetchPage(url).status())) << url;
  }
  EXPECT_TRUE(absl::IsUnavailable(FetchPage("http://127.0.0.1:1/metrics").status()));
}

}  // namespace
}  // namespace fermata::bench
