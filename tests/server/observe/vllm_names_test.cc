#include "server/observe/vllm_names.h"

#include <map>
#include <regex>
#include <string>

#include "gmock/gmock.h"
#include "tests/server/observe/exposition.h"

namespace fermata {
namespace {

using ::testing::MatchesRegex;

constexpr char kModel[] = R"({model_name="tale",engine="0"})";

class VllmNamesTest : public testing::Test {
 protected:
  VllmNamesTest() {
    Metrics metrics(FullStats, /*vllm_names=*/true);
    HaveAllHappen(metrics);
    exposition_ = ParseExposition(metrics.Text());
  }

  // Of the one sample of a family, which has vLLM's two labels.
  double Value(const std::string& family) const { return exposition_.samples.at(family + kModel); }
  double Of(const std::string& family, const std::string& labels) const {
    return exposition_.samples.at(family + "{model_name=\"tale\",engine=\"0\"," + labels + "}");
  }
  // The labels of the one sample of a family.
  std::map<std::string, std::string> Labels(const std::string& family) const {
    std::map<std::string, std::string> labels;
    for (const auto& [sample, of] : exposition_.families) {
      if (of != family) continue;
      EXPECT_TRUE(labels.empty()) << "a second sample: " << sample;
      static const std::regex label("([a-z_]+)=\"([^\"]*)\"");
      for (std::sregex_iterator it(sample.begin(), sample.end(), label), end; it != end; ++it) {
        labels[(*it)[1]] = (*it)[2];
      }
    }
    return labels;
  }

  Exposition exposition_;
};

// What the endpoint picker of the Gateway API inference extension reads of a server of the engine
// "vllm": the defaults of its core-metrics-extractor, and the labels that it looks for in them.
TEST_F(VllmNamesTest, TheEndpointPickerFindsWhatItReads) {
  for (const char* gauge :
       {"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc",
        "vllm:lora_requests_info", "vllm:cache_config_info"}) {
    EXPECT_EQ(exposition_.types[gauge], "gauge") << gauge;
  }
  EXPECT_EQ(Value("vllm:num_requests_waiting"), 4);
  EXPECT_EQ(Value("vllm:num_requests_running"), 1);
  EXPECT_DOUBLE_EQ(Value("vllm:kv_cache_usage_perc"), 1. / 5);
  // It reads these two labels as numbers; and lists of names, of which there are none.
  const auto cache = Labels("vllm:cache_config_info");
  EXPECT_THAT(cache.at("block_size"), MatchesRegex("[1-9][0-9]*"));
  EXPECT_EQ(cache.at("num_gpu_blocks"), "3");  // So many states of 1000 bytes fit into 3500.
  const auto adapters = Labels("vllm:lora_requests_info");
  EXPECT_EQ(adapters.at("max_lora"), "0");
  EXPECT_EQ(adapters.at("running_lora_adapters"), "");
  EXPECT_EQ(adapters.at("waiting_lora_adapters"), "");
}

// The queries of the dashboards that vLLM publishes, as they name series.
TEST_F(VllmNamesTest, DashboardsFindTheirSeries) {
  for (const char* histogram :
       {"vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
        "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
        "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
        "vllm:request_decode_time_seconds"}) {
    EXPECT_EQ(exposition_.types[histogram], "histogram") << histogram;
    EXPECT_GT(Of(std::string(histogram) + "_bucket", "le=\"+Inf\""), 0) << histogram;
    EXPECT_GT(Value(std::string(histogram) + "_sum"), 0) << histogram;
  }
  for (const char* counter :
       {"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
        "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"}) {
    EXPECT_EQ(exposition_.types[counter], "counter") << counter;
  }
  EXPECT_EQ(Value("vllm:gpu_cache_usage_perc"), Value("vllm:kv_cache_usage_perc"));
}

TEST_F(VllmNamesTest, FiguresAreOurs) {
  EXPECT_EQ(Value("vllm:prompt_tokens_total"), 7);
  EXPECT_EQ(Value("vllm:generation_tokens_total"), 3);
  EXPECT_EQ(Value("vllm:prefix_cache_hits_total"), 6);
  EXPECT_EQ(Value("vllm:prefix_cache_queries_total"), 6 + 7);
  EXPECT_EQ(Of("vllm:request_success_total", "finished_reason=\"stop\""), 1);
  EXPECT_EQ(Of("vllm:request_success_total", "finished_reason=\"length\""), 0);
  EXPECT_EQ(Of("vllm:request_success_total", "finished_reason=\"abort\""), 5);
  EXPECT_EQ(Value("vllm:time_to_first_token_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(Value("vllm:time_to_first_token_seconds_sum"), 0.015);
  EXPECT_EQ(Of("vllm:time_to_first_token_seconds_bucket", "le=\"0.01\""), 0);
  EXPECT_EQ(Of("vllm:time_to_first_token_seconds_bucket", "le=\"0.02\""), 1);
  EXPECT_DOUBLE_EQ(Value("vllm:inter_token_latency_seconds_sum"), 0.004);
  EXPECT_DOUBLE_EQ(Value("vllm:e2e_request_latency_seconds_sum"), 0.021);
  EXPECT_DOUBLE_EQ(Value("vllm:request_prefill_time_seconds_sum"), 0.012);
  EXPECT_DOUBLE_EQ(Value("vllm:request_decode_time_seconds_sum"), 0.004);
  EXPECT_EQ(Value("vllm:request_prompt_tokens_sum"), 9);
  EXPECT_EQ(Value("vllm:request_generation_tokens_sum"), 3);
  // All priorities together, bucket by bucket.
  EXPECT_EQ(Value("vllm:request_queue_time_seconds_count"), 6);
  EXPECT_EQ(Of("vllm:request_queue_time_seconds_bucket", "le=\"0.002\""), 5);
  EXPECT_EQ(Of("vllm:request_queue_time_seconds_bucket", "le=\"0.005\""), 6);
}

TEST(NoVllmNamesTest, UnlessTheyAreAskedFor) {
  EXPECT_EQ(Metrics(FullStats).Text().find("vllm:"), std::string::npos);
}

}  // namespace
}  // namespace fermata
