#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 30;

// The layer in float64, as its formulas stand.
Doubles Expected(RandomWeights& weights, const std::vector<float>& input, const Json& config) {
  const Doubles x(input.begin(), input.end());
  const int64_t qk_heads = config.value("num_heads", 6);
  const int64_t heads = config.value("num_v_heads", qk_heads);
  const int64_t key_dim = config.at("head_dim");
  const int64_t value_dim = std::lround(key_dim * config.value("expand_v", 2.0));
  const auto key = [&](const std::string& letter) {
    Doubles y =
        ReferenceProjection(weights, letter, x, qk_heads * key_dim, config, true, "identity");
    for (double& each : y) each = ReferenceSilu(each);
    for (size_t head = 0; head < y.size(); head += key_dim) {
      double square = 1e-6;
      for (int64_t i = 0; i < key_dim; ++i) square += y[head + i] * y[head + i];
      for (int64_t i = 0; i < key_dim; ++i) y[head + i] /= std::sqrt(square);
    }
    return RepeatHeads(y, key_dim, heads / qk_heads);
  };
  ReferenceRecurrence recurrence{.heads = heads,
                                 .key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .delta = true,
                                 .q = key("q"),
                                 .k = key("k")};
  for (double& each : recurrence.q) each /= std::sqrt(static_cast<double>(key_dim));
  recurrence.v = ReferenceProjection(weights, "v", x, heads * value_dim, config, true, "identity");
  for (double& each : recurrence.v) each = ReferenceSilu(each);
  recurrence.beta = ReferenceLinear(weights, "b_proj.weight", x, kHidden, heads);
  for (double& each : recurrence.beta) {
    each = ReferenceSigmoid(each) * (config.value("allow_neg_eigval", false) ? 2 : 1);
  }
  const Doubles step = ReferenceLinear(weights, "a_proj.weight", x, kHidden, heads);
  const Doubles bias = Tensor(weights, "dt_bias", {heads});
  const Doubles A_log = Tensor(weights, "A_log", {heads});
  Doubles w;
  for (size_t i = 0; i < step.size(); ++i) {
    const int64_t head = static_cast<int64_t>(i) % heads;
    w.push_back(std::exp(-std::exp(A_log[head]) * ReferenceSoftplus(step[i] + bias[head])));
  }
  recurrence.w = RepeatHeads(w, 1, key_dim);
  return ReferenceHeadOutput(weights, x, recurrence.Output(),
                             {.hidden = kHidden,
                              .heads = heads,
                              .dim = value_dim,
                              .norm = "o_norm",
                              .eps = config.value("norm_eps", 1e-6),
                              .gate_act = config.value("use_gate", true) ? "silu" : ""});
}

TEST(GatedDeltaNetTest, MatchesFloat64) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (Json config : {
           Json{{"head_dim", 5}},
           Json{{"head_dim", 7}, {"num_heads", 2}, {"num_v_heads", 6}, {"expand_v", 1}},
           Json{{"head_dim", 10}, {"num_heads", 3}, {"expand_v", 0.7}, {"use_gate", false}},
           Json{{"head_dim", 6}, {"num_heads", 1}, {"allow_neg_eigval", true}, {"norm_eps", 0.1}},
           Json{{"head_dim", 6}, {"num_heads", 2}, {"use_short_conv", false}},
           Json{{"head_dim", 6}, {"num_heads", 2}, {"conv_size", 3}, {"conv_bias", true}},
       }) {
    SCOPED_TRACE(config);
    config["hidden_size"] = kHidden;
    RandomWeights weights(1);
    const auto mixer = MakeMixer("gated_delta_net", kHidden, config, weights);
    ExpectMatches(*mixer, x, Expected(weights, x, config), 5e-5);
  }
}

// e^A_log = 0 makes every decay 1.
TEST(GatedDeltaNetTest, WithoutDecayItIsDeltaNet) {
  constexpr int64_t kHeads = 3;
  RandomWeights weights(1);
  weights.Set("m.A_log", std::vector<float>(kHeads, -1000));
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  const auto gated = MakeMixer("gated_delta_net", kHidden,
                               {{"num_heads", kHeads}, {"head_dim", 10}, {"expand_v", 1}}, weights);
  const auto plain =
      MakeMixer("delta_net", kHidden, {{"num_heads", kHeads}, {"use_gate", true}}, weights);
  for (const Form form : kForms) {
    Sequence a(*gated), b(*plain);
    const auto expected = Feed(*plain, b, x, kReferenceRows, form);
    EXPECT_LE(Difference(Feed(*gated, a, x, kReferenceRows, form), expected), 1e-6)
        << FormName(form);
    EXPECT_LE(Difference(a.state, b.state), 1e-6) << FormName(form);
  }
}

TEST(GatedDeltaNetTest, WrongFieldsAreRefusedByName) {
  ExpectRefused("gated_delta_net", kHidden, {{"num_heads", 4}, {"head_dim", 6}},
                {{"num_heads", 0},
                 {"num_v_heads", 6},
                 {"num_v_heads", 2},
                 {"head_dim", 0},
                 {"expand_v", 0.7},
                 {"use_gate", 1},
                 {"allow_neg_eigval", 2},
                 {"conv_bias", "no"}});
}

}  // namespace
}  // namespace fermata
