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

constexpr int64_t kHidden = 21;

Doubles Columns(const Doubles& x, int64_t width, int64_t begin, int64_t count) {
  Doubles columns;
  for (auto row = x.begin(); row != x.end(); row += width) {
    columns.insert(columns.end(), row + begin, row + begin + count);
  }
  return columns;
}

Doubles WithBias(RandomWeights& weights, const std::string& name, const Doubles& x, int64_t in,
                 int64_t out, bool bias) {
  Doubles y = ReferenceLinear(weights, name + ".weight", x, in, out);
  if (!bias) return y;
  const Doubles added = Tensor(weights, name + ".bias", {out});
  for (size_t i = 0; i < y.size(); ++i) y[i] += added[i % out];
  return y;
}

// y, gated by z and normalised in groups of `dim`.
Doubles GatedAndNormalised(RandomWeights& weights, Doubles y, const Doubles& z, const Json& config,
                           int64_t width, int64_t groups) {
  const bool per_group = config.value("norm_per_group", false);
  const bool norm_first = per_group && config.value("norm_before_gate", false);
  const auto gate = [&] {
    for (size_t i = 0; i < y.size(); ++i) y[i] *= ReferenceSilu(z[i]);
  };
  if (!norm_first) gate();
  if (config.value("norm", true)) {
    const double eps = config.value("layer_norm_epsilon", config.value("norm_eps", 1e-5));
    const int64_t dim = per_group ? width / groups : width;
    ReferenceRmsNorm(y, dim, eps, Doubles(dim, 1));
    const Doubles weight = Tensor(weights, "norm.weight", {width});
    for (size_t i = 0; i < y.size(); ++i) y[i] *= weight[i % width];
  }
  if (norm_first) gate();
  return y;
}

// The layer in float64, as its formulas stand.
Doubles Expected(RandomWeights& weights, const std::vector<float>& input, const Json& config) {
  const Doubles u(input.begin(), input.end());
  const int64_t dim = config.at("head_dim"), state = config.at("state_size");
  const auto width = static_cast<int64_t>(kHidden * config.value("expand", 2.0));
  const int64_t heads = width / dim;
  const int64_t groups = config.value("n_groups", config.contains("norm_eps") ? 1 : 8);
  const int64_t conv_width = width + 2 * groups * state;
  const int64_t in_width = width + conv_width + heads;
  const bool bias = config.value("use_bias", false);
  const Doubles in = WithBias(weights, "in_proj", u, kHidden, in_width, bias);
  Doubles xBC = ReferenceConvolve(weights, "conv1d", Columns(in, in_width, width, conv_width),
                                  {.width = conv_width,
                                   .taps = config.value("conv_kernel", int64_t{4}),
                                   .bias = config.value("use_conv_bias", true)});
  for (double& each : xBC) each = ReferenceActivation(config.value("hidden_act", "silu"), each);
  Doubles step = Columns(in, in_width, width + conv_width, heads);
  const Doubles dt_bias = Tensor(weights, "dt_bias", {heads});
  const Doubles A_log = Tensor(weights, "A_log", {heads});
  const Doubles D = Tensor(weights, "D", {heads});
  const Doubles limit = config.value("limit", Doubles{0, 1e300});
  Doubles decay;
  for (size_t i = 0; i < step.size(); ++i) {
    const int64_t head = static_cast<int64_t>(i) % heads;
    step[i] = std::clamp(ReferenceSoftplus(step[i] + dt_bias[head]), limit[0], limit[1]);
    decay.push_back(std::exp(-std::exp(A_log[head]) * step[i]));
  }
  const Doubles x = Columns(xBC, conv_width, 0, width);
  ReferenceRecurrence recurrence{.heads = heads, .key_dim = state, .value_dim = dim};
  recurrence.k =
      RepeatHeads(Columns(xBC, conv_width, width, groups * state), state, heads / groups);
  recurrence.q = RepeatHeads(Columns(xBC, conv_width, width + groups * state, groups * state),
                             state, heads / groups);
  recurrence.v = x;
  recurrence.w = RepeatHeads(decay, 1, state);
  recurrence.beta = step;
  Doubles y = recurrence.Output();
  for (size_t i = 0; i < y.size(); ++i) y[i] += D[i / dim % heads] * x[i];
  y = GatedAndNormalised(weights, y, Columns(in, in_width, 0, width), config, width, groups);
  return WithBias(weights, "out_proj", y, width, kHidden, bias);
}

TEST(Mamba2Test, MatchesFloat64) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (Json config : {
           Json{{"n_groups", 1}},
           Json{{"n_groups", 2}, {"use_bias", true}, {"use_conv_bias", false}},
           Json{{"n_groups", 3}, {"conv_kernel", 2}, {"layer_norm_epsilon", 0.1}},
           Json{{"n_groups", 3}, {"norm_per_group", true}},
           Json{{"n_groups", 2}, {"norm_per_group", true}, {"norm_before_gate", true}},
           // transformers has the field and always gates first.
           Json{{"n_groups", 1}, {"norm_before_gate", true}, {"num_heads", 6}},
           Json{{"n_groups", 1}, {"hidden_act", "relu"}, {"expand", 1}},
           Json{{"norm_eps", 0.1}, {"hidden_act", "gelu"}},
           Json{{"norm_eps", 1e-5}, {"rms_norm", false}},
           Json{{"n_groups", 1}, {"time_step_limit", {0.5, 0.9}}, {"limit", {0.5, 0.9}}},
           Json{{"n_groups", 1}, {"dt_limit", {0.8, nullptr}}, {"limit", {0.8, 1e9}}},
           Json{{"expand", 8}, {"head_dim", 21}, {"time_step_limit", nullptr}},
       }) {
    if (!config.contains("head_dim")) config["head_dim"] = 7;
    config["state_size"] = 10;
    SCOPED_TRACE(config);
    RandomWeights weights(1);
    const auto mixer = MakeMixer("mamba2", kHidden, config, weights);
    ExpectMatches(*mixer, x, Expected(weights, x, config));
  }
}

// mamba_ssm makes no norm then; transformers does.
TEST(Mamba2Test, ThereIsNoNormWhereNeitherConfigNorCheckpointHasOne) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  RandomWeights weights(1);
  weights.Remove("m.norm.weight");
  Json config = {{"n_groups", 1}, {"head_dim", 7}, {"state_size", 10}, {"norm", false}};
  EXPECT_EQ(TryMixer("mamba2", kHidden, config, weights).status().code(),
            absl::StatusCode::kNotFound);
  config["rms_norm"] = false;
  ExpectMatches(*MakeMixer("mamba2", kHidden, config, weights), x, Expected(weights, x, config));
}

TEST(Mamba2Test, NamesItsState) {
  RandomWeights weights(1);
  const auto mixer =
      MakeMixer("mamba2", kHidden, {{"n_groups", 2}, {"head_dim", 7}, {"state_size", 10}}, weights);
  std::vector<std::pair<std::string, std::vector<int64_t>>> blocks;
  for (const StateBlock& block : mixer->state_blocks())
    blocks.emplace_back(block.name, block.shape);
  EXPECT_THAT(blocks,
              testing::ElementsAre(testing::Pair("S", testing::ElementsAre(6, 10, 7)),
                                   testing::Pair("conv", testing::ElementsAre(3, 42 + 40))));
}

TEST(Mamba2Test, WrongFieldsAreRefusedByName) {
  ExpectRefused("mamba2", kHidden, {{"n_groups", 1}, {"head_dim", 7}, {"state_size", 10}},
                {{"num_heads", 5},
                 {"head_dim", 0},
                 {"n_groups", 4},
                 {"n_groups", 7},
                 {"state_size", 0},
                 {"conv_kernel", 0},
                 {"use_bias", 1},
                 {"hidden_act", "gelu"},
                 {"layer_norm_epsilon", -1},
                 {"time_step_limit", {1, 0}},
                 {"time_step_limit", 1},
                 {"D_has_hdim", true}});
}

}  // namespace
}  // namespace fermata
