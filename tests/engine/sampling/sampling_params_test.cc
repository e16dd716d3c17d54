#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/sampling/sampler.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

constexpr int64_t kVocabSize = 100;

struct Case {
  std::string field;  // That the error names; empty where the value is good.
  std::function<void(SamplingParams&)> change;
};

void Check(const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SamplingParams params;
    cases[i].change(params);
    const absl::Status status = ValidateSampling(params, kVocabSize);
    if (cases[i].field.empty()) {
      EXPECT_TRUE(status.ok()) << i << ": " << status;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(DetailsOf(status).metadata["field"], cases[i].field) << i;
  }
}

TEST(ValidateSamplingTest, DefaultsAndBordersAreGood) {
  Check({
      {"", [](auto&) {}},
      {"", [](auto& p) { p.temperature = 0; }},
      {"", [](auto& p) { p.temperature = 100; }},
      {"", [](auto& p) { p.top_k = std::numeric_limits<int32_t>::max(); }},
      {"", [](auto& p) { p.top_p = 1e-300; }},
      {"", [](auto& p) { p.min_p = 0.999; }},
      {"", [](auto& p) { p.repetition_penalty = 0.01; }},
      {"", [](auto& p) { p.penalty_window = kMaxPenaltyWindow; }},
      {"",
       [](auto& p) {
         p.logit_bias = {{0, -100.0f}, {99, 100.0f}};
       }},
      {"", [](auto& p) { p.max_new_tokens = p.min_new_tokens = kMaxNewTokens; }},
      {"", [](auto& p) { p.max_new_tokens = 0; }},
      {"", [](auto& p) { p.stop_token_ids.assign(kMaxStopTokens, 99); }},
      {"", [](auto& p) { p.stop.assign(kMaxStopStrings, std::string(kMaxStopBytes, 'x')); }},
      {"",
       [](auto& p) {
         p.stop = {"\xF4\x8F\xBF\xBF", std::string(1, '\0')};
       }},
      {"", [](auto& p) { p.logprobs = kMaxLogprobs; }},
      {"", [](auto& p) { p.seed = ~0ULL; }},
  });
}

TEST(ValidateSamplingTest, NumbersOutOfRangeAreNamed) {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Case> cases;
  for (const double bad : {-0.1, 100.1, nan, inf}) {
    cases.push_back({"sampling.temperature", [=](auto& p) { p.temperature = bad; }});
  }
  for (const double bad : {0.0, -0.5, 1.0001, nan}) {
    cases.push_back({"sampling.top_p", [=](auto& p) { p.top_p = bad; }});
  }
  for (const double bad : {-0.1, 1.0, nan}) {
    cases.push_back({"sampling.min_p", [=](auto& p) { p.min_p = bad; }});
  }
  for (const double bad : {0.0, -1.0, 101.0, nan, inf}) {
    cases.push_back({"sampling.repetition_penalty", [=](auto& p) { p.repetition_penalty = bad; }});
  }
  for (const double bad : {-101.0, 101.0, nan, -inf}) {
    cases.push_back({"sampling.presence_penalty", [=](auto& p) { p.presence_penalty = bad; }});
    cases.push_back({"sampling.frequency_penalty", [=](auto& p) { p.frequency_penalty = bad; }});
  }
  cases.push_back({"sampling.top_k", [](auto& p) { p.top_k = -1; }});
  for (const int bad : {-1, kMaxPenaltyWindow + 1}) {
    cases.push_back({"sampling.penalty_window", [=](auto& p) { p.penalty_window = bad; }});
  }
  for (const int bad : {-1, kMaxNewTokens + 1}) {
    cases.push_back({"sampling.max_new_tokens", [=](auto& p) { p.max_new_tokens = bad; }});
  }
  cases.push_back({"sampling.min_new_tokens", [](auto& p) { p.min_new_tokens = -1; }});
  cases.push_back({"sampling.min_new_tokens", [](auto& p) { p.min_new_tokens = 129; }});
  for (const int bad : {-2, kMaxLogprobs + 1}) {
    cases.push_back({"sampling.logprobs", [=](auto& p) { p.logprobs = bad; }});
  }
  Check(cases);
}

TEST(ValidateSamplingTest, ListsAreBoundedAndTheirElementsNamed) {
  Check({
      {"sampling.stop_token_ids", [](auto& p) { p.stop_token_ids.assign(kMaxStopTokens + 1, 1); }},
      {"sampling.stop_token_ids[1]",
       [](auto& p) {
         p.stop_token_ids = {1, 100};
       }},
      {"sampling.stop_token_ids[0]", [](auto& p) { p.stop_token_ids = {-1}; }},
      {"sampling.logit_bias[100]",
       [](auto& p) {
         p.logit_bias = {{100, 1.0f}};
       }},
      {"sampling.logit_bias[-1]",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0f}};
       }},
      {"sampling.logit_bias[5]",
       [](auto& p) {
         p.logit_bias = {{5, 100.5f}};
       }},
      {"sampling.logit_bias[5]",
       [](auto& p) {
         p.logit_bias = {{5, std::nanf("")}};
       }},
      {"sampling.logit_bias",
       [](auto& p) {
         for (int id = 0; id <= kMaxLogitBias; ++id) p.logit_bias[id] = 0;
       }},
      {"sampling.stop", [](auto& p) { p.stop.assign(kMaxStopStrings + 1, "x"); }},
      {"sampling.stop[1]",
       [](auto& p) {
         p.stop = {"x", ""};
       }},
      {"sampling.stop[0]", [](auto& p) { p.stop = {std::string(kMaxStopBytes + 1, 'x')}; }},
      {"sampling.stop[0]", [](auto& p) { p.stop = {"a\xC3"}; }},
      {"sampling.stop[0]", [](auto& p) { p.stop = {"\xED\xA0\x80"}; }},
      {"sampling.stop[0]", [](auto& p) { p.stop = {"\xC0\x80"}; }},
  });
}

}  // namespace
}  // namespace fermata
