#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 48;

// The layer in float64, as its formulas stand.
Doubles Expected(RandomWeights& weights, const std::vector<float>& input, const Json& config) {
  const Doubles x(input.begin(), input.end());
  const int64_t heads = config.value("num_heads", 8);
  const int64_t kv_heads = config.value("num_kv_heads", heads);
  const auto key_dim = static_cast<int64_t>(kHidden * config.value("expand_k", 1.0)) / heads;
  const auto value_dim = static_cast<int64_t>(kHidden * config.value("expand_v", 2.0)) / heads;
  Doubles q = ReferenceProjection(weights, "q", x, heads * key_dim, config, false, "silu");
  Doubles k = ReferenceProjection(weights, "k", x, kv_heads * key_dim, config, false, "silu");
  const Doubles v =
      ReferenceProjection(weights, "v", x, kv_heads * value_dim, config, false, "silu");
  const std::string map = config.value("feature_map", "linear");
  for (double& each : q) each = ReferenceActivation(map, each);
  for (double& each : k) each = ReferenceActivation(map, each);
  ReferenceRotate(q, heads, key_dim, 10000);
  ReferenceRotate(k, kv_heads, key_dim, 10000);
  for (double& each : q) each /= std::sqrt(static_cast<double>(key_dim));
  ReferenceRecurrence recurrence{.heads = heads,
                                 .key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .q = q,
                                 .k = RepeatHeads(k, key_dim, heads / kv_heads),
                                 .v = RepeatHeads(v, value_dim, heads / kv_heads)};
  for (size_t i = 0; i < q.size(); ++i) {
    const auto head = static_cast<double>(i / key_dim % heads);
    recurrence.w.push_back(1 - std::pow(2, -5 - head));
  }
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

TEST(RetentionTest, MatchesFloat64) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (Json config : {
           Json::object(),
           Json{{"hidden_act", "silu"}, {"norm_eps", 0.1}, {"expand_v", 0.5}, {"num_heads", 2}},
           Json{{"num_heads", 4}, {"num_kv_heads", 2}, {"expand_k", 0.5}, {"feature_map", "relu"}},
           Json{{"num_heads", 4}, {"num_kv_heads", 1}, {"feature_map", "gelu_new"}},
           Json{{"use_output_gate", false}, {"elementwise_affine", false}, {"num_heads", 12}},
           Json{{"num_heads", 1}, {"expand_v", 0.325}, {"hidden_act", "sigmoid"}},
           Json{{"use_short_conv", true}, {"conv_bias", true}, {"num_heads", 4}},
           Json{{"use_short_conv", true}, {"conv_size", 3}, {"num_kv_heads", 4}},
       }) {
    SCOPED_TRACE(config);
    config["hidden_size"] = kHidden;
    RandomWeights weights(1);
    const auto mixer = MakeMixer("retention", kHidden, config, weights);
    ExpectMatches(*mixer, x, Expected(weights, x, config));
  }
}

// The published model does not fuse them for every config, and names the tensor by that.
TEST(RetentionTest, TheNormGoesByEitherName) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  RandomWeights weights(1);
  weights.Remove("m.g_norm_swish_gate.weight");
  Json config = {{"hidden_size", kHidden}, {"fused", false}};
  ExpectMatches(*MakeMixer("retention", kHidden, config, weights), x, Expected(weights, x, config));
  EXPECT_FALSE(weights.asked().contains("m.g_norm_swish_gate.weight"));
}

// The published model makes the layer without convolutions whatever its config says.
TEST(RetentionTest, ThereAreNoConvolutionsWhereTheCheckpointHasNone) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  RandomWeights weights(1);
  for (const char* letter : {"q", "k", "v"}) {
    weights.Remove("m." + std::string(letter) + "_conv1d.weight");
  }
  const auto mixer = MakeMixer("retention", kHidden, {{"use_short_conv", true}}, weights);
  EXPECT_EQ(mixer->state_blocks().size(), 1u);
  ExpectMatches(*mixer, x, Expected(weights, x, {{"hidden_size", kHidden}}));
}

TEST(RetentionTest, NamesItsState) {
  RandomWeights weights(1);
  const auto mixer =
      MakeMixer("retention", kHidden,
                {{"use_short_conv", true}, {"num_heads", 4}, {"num_kv_heads", 2}}, weights);
  std::vector<std::pair<std::string, std::vector<int64_t>>> blocks;
  for (const StateBlock& block : mixer->state_blocks())
    blocks.emplace_back(block.name, block.shape);
  EXPECT_THAT(blocks, testing::ElementsAre(testing::Pair("S", testing::ElementsAre(4, 12, 24)),
                                           testing::Pair("q_conv", testing::ElementsAre(3, 48)),
                                           testing::Pair("k_conv", testing::ElementsAre(3, 24)),
                                           testing::Pair("v_conv", testing::ElementsAre(3, 48))));
  EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), 2 * (12 + 24));
}

TEST(RetentionTest, WrongFieldsAreRefusedByName) {
  ExpectRefused("retention", kHidden, {{"num_heads", 4}},
                {{"num_heads", 0},
                 {"num_kv_heads", 3},
                 {"expand_k", 0.25},  // Three floats a head: nothing to rotate.
                 {"expand_v", 0.31},  // Fourteen floats.
                 {"feature_map", "gelu"},
                 {"feature_map", "elu"},
                 {"hidden_act", "sqrelu"},
                 {"use_output_gate", "yes"},
                 {"norm_eps", -1},
                 {"conv_size", 0}});
}

}  // namespace
}  // namespace fermata
