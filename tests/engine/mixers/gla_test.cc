#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 36;

// The layer in float64, as its formulas stand.
Doubles Expected(RandomWeights& weights, const std::vector<float>& input, const Json& config) {
  const Doubles x(input.begin(), input.end());
  const int64_t heads = config.value("num_heads", 4);
  const int64_t kv_heads = config.value("num_kv_heads", heads);
  const auto key_dim = static_cast<int64_t>(kHidden * config.value("expand_k", 0.5)) / heads;
  const auto value_dim = static_cast<int64_t>(kHidden * config.value("expand_v", 1.0)) / heads;
  Doubles q = ReferenceProjection(weights, "q", x, heads * key_dim, config, false, "silu");
  Doubles k = ReferenceProjection(weights, "k", x, kv_heads * key_dim, config, false, "silu");
  const Doubles v =
      ReferenceProjection(weights, "v", x, kv_heads * value_dim, config, false, "silu");
  const std::string map = config.value("feature_map", "identity");
  for (double& each : q) each = ReferenceActivation(map, each) / std::sqrt(1.0 * key_dim);
  for (double& each : k) each = ReferenceActivation(map, each);

  const int64_t rank = config.value("gate_low_rank_dim", 16);
  Doubles w = ReferenceLinear(weights, "gk_proj.1.weight",
                              ReferenceLinear(weights, "gk_proj.0.weight", x, kHidden, rank), rank,
                              kv_heads * key_dim);
  const Doubles bias = Tensor(weights, "gk_proj.1.bias", {kv_heads * key_dim});
  for (size_t i = 0; i < w.size(); ++i) {
    const double gate = std::log(ReferenceSigmoid(w[i] + bias[i % bias.size()]));
    w[i] = std::exp(std::max(gate / config.value("gate_logit_normalizer", 16.0),
                             config.value("clamp_min", -1e300)));
  }
  const int64_t group = heads / kv_heads;
  const ReferenceRecurrence recurrence{.heads = heads,
                                       .key_dim = key_dim,
                                       .value_dim = value_dim,
                                       .q = q,
                                       .k = RepeatHeads(k, key_dim, group),
                                       .v = RepeatHeads(v, value_dim, group),
                                       .w = RepeatHeads(w, key_dim, group)};
  return ReferenceHeadOutput(
      weights, x, recurrence.Output(),
      {.hidden = kHidden,
       .heads = heads,
       .dim = value_dim,
       .norm = config.value("fused", true) ? "g_norm_swish_gate" : "g_norm",
       .eps = config.value("norm_eps", 1e-6),
       .plain = !config.value("elementwise_affine", true),
       .gate_act =
           config.value("use_output_gate", true) ? config.value("hidden_act", "swish") : ""});
}

TEST(GlaTest, MatchesFloat64) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (Json config : {
           Json{{"num_heads", 3}},
           Json{{"num_heads", 6}, {"num_kv_heads", 2}, {"expand_k", 1}, {"expand_v", 1.5}},
           Json{{"num_heads", 3}, {"gate_logit_normalizer", 1}, {"gate_low_rank_dim", 5}},
           Json{{"num_heads", 3}, {"gate_logit_normalizer", 1}, {"clamp_min", -0.4}},
           Json{{"num_heads", 2}, {"feature_map", "relu"}, {"norm_eps", 0.1}},
           Json{{"num_heads", 2}, {"feature_map", "gelu"}, {"use_output_gate", false}},
           Json{{"num_heads", 2}, {"feature_map", "sqrelu"}, {"elementwise_affine", false}},
           Json{{"num_heads", 2}, {"feature_map", "logsigmoid"}, {"hidden_act", "silu"}},
           Json{{"num_heads", 3}, {"num_kv_heads", 1}, {"use_short_conv", true}},
           Json{{"num_heads", 3}, {"use_short_conv", true}, {"conv_size", 2}, {"conv_bias", true}},
       }) {
    SCOPED_TRACE(config);
    config["hidden_size"] = kHidden;
    RandomWeights weights(1);
    const auto mixer = MakeMixer("gla", kHidden, config, weights);
    ExpectMatches(*mixer, x, Expected(weights, x, config));
  }
}

TEST(GlaTest, TheNormGoesByEitherName) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  RandomWeights weights(1);
  weights.Remove("m.g_norm_swish_gate.weight");
  const Json config = {{"hidden_size", kHidden}, {"num_heads", 3}, {"fused", false}};
  ExpectMatches(*MakeMixer("gla", kHidden, config, weights), x, Expected(weights, x, config));
}

// With gates that do not depend on the token, GLA is linear attention with a decay: retention
// without its rotation.
TEST(GlaTest, ConstantGatesAreAFixedDecay) {
  constexpr int64_t kHeads = 3, kKeyDim = 6;
  const Json decay = {0.75, 0.9, 0.96875};
  RandomWeights weights(1);
  weights.Set("m.gk_proj.1.weight", std::vector<float>(kHeads * kKeyDim * 16));
  std::vector<float> bias;
  for (int64_t i = 0; i < kHeads * kKeyDim; ++i) {
    const double keep = std::pow(decay[i / kKeyDim].get<double>(), 16);
    bias.push_back(static_cast<float>(std::log(keep / (1 - keep))));
  }
  weights.Set("m.gk_proj.1.bias", bias);
  const auto norm = RandomNormals(5, 12);
  weights.Set("m.g_norm_swish_gate.weight", norm);
  weights.Set("m.norm.weight", norm);
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  const auto gla = MakeMixer("gla", kHidden, {{"num_heads", kHeads}}, weights);
  const auto linear = MakeMixer("linear_attn", kHidden,
                                {{"num_heads", kHeads},
                                 {"expand_k", 0.5},
                                 {"feature_map", "identity"},
                                 {"use_output_gate", true},
                                 {"decay", decay}},
                                weights);
  for (const Form form : kForms) {
    Sequence a(*gla), b(*linear);
    const auto expected = Feed(*linear, b, x, kReferenceRows, form);
    EXPECT_LE(Difference(Feed(*gla, a, x, kReferenceRows, form), expected), 2e-5) << FormName(form);
    EXPECT_LE(Difference(a.state, b.state), 2e-5) << FormName(form);
  }
}

TEST(GlaTest, WrongFieldsAreRefusedByName) {
  ExpectRefused("gla", kHidden, {{"num_heads", 3}},
                {{"num_heads", 5000},
                 {"num_kv_heads", 2},
                 {"num_kv_heads", 6},
                 {"expand_k", 0.3},
                 {"expand_v", 0},
                 {"feature_map", "elu"},
                 {"hidden_act", "relu2"},
                 {"gate_low_rank_dim", 0},
                 {"gate_logit_normalizer", 0},
                 {"clamp_min", 0.1},
                 {"elementwise_affine", 1},
                 {"use_short_conv", 1}});
}

}  // namespace
}  // namespace fermata
