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
  const int64_t heads = config.at("num_heads");
  const auto key_dim = static_cast<int64_t>(kHidden * config.value("expand_k", 1.0)) / heads;
  const auto value_dim = static_cast<int64_t>(kHidden * config.value("expand_v", 1.0)) / heads;
  const std::string act = config.value("qk_activation", "silu");
  const bool l2 = config.value("qk_norm", "l2") == "l2";
  const auto normalised = [&](const std::string& letter) {
    Doubles y = ReferenceProjection(weights, letter, x, heads * key_dim, config, true, "identity");
    for (double& each : y) each = ReferenceActivation(act, each);
    for (size_t head = 0; head < y.size(); head += key_dim) {
      double sum = 0, square = 0;
      for (int64_t i = 0; i < key_dim; ++i) {
        sum += y[head + i];
        square += y[head + i] * y[head + i];
      }
      for (int64_t i = 0; i < key_dim; ++i) y[head + i] /= l2 ? std::sqrt(square + 1e-6) : sum;
    }
    return y;
  };
  ReferenceRecurrence recurrence{.heads = heads,
                                 .key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .delta = true,
                                 .q = normalised("q"),
                                 .k = normalised("k")};
  for (double& each : recurrence.q) each /= std::sqrt(static_cast<double>(key_dim));
  recurrence.v = ReferenceProjection(weights, "v", x, heads * value_dim, config, true, "identity");
  for (double& each : recurrence.v) each = ReferenceSilu(each);
  recurrence.w.assign(recurrence.q.size(), 1);
  recurrence.beta.assign(kReferenceRows * heads, 1);
  if (config.value("use_beta", true)) {
    recurrence.beta = ReferenceLinear(weights, "b_proj.weight", x, kHidden, heads);
    for (double& each : recurrence.beta) each = ReferenceSigmoid(each);
  }
  for (double& each : recurrence.beta) each *= config.value("allow_neg_eigval", false) ? 2 : 1;
  return ReferenceHeadOutput(weights, x, recurrence.Output(),
                             {.hidden = kHidden,
                              .heads = heads,
                              .dim = value_dim,
                              .norm = "o_norm",
                              .eps = config.value("norm_eps", 1e-6),
                              .gate_act = config.value("use_gate", false) ? "silu" : ""});
}

TEST(DeltaNetTest, MatchesFloat64) {
  const auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (Json config : {
           Json{{"num_heads", 3}},
           Json{{"num_heads", 3}, {"use_gate", true}, {"use_output_norm", false}},
           Json{{"num_heads", 2}, {"allow_neg_eigval", true}, {"norm_eps", 0.1}},
           Json{{"num_heads", 3}, {"use_beta", false}, {"use_short_conv", false}},
           Json{{"num_heads", 6}, {"expand_k", 0.5}, {"expand_v", 1.5}, {"conv_bias", true}},
           Json{{"num_heads", 3}, {"qk_activation", "elu"}, {"qk_norm", "sum"}},
           Json{{"num_heads", 3}, {"qk_activation", "relu"}, {"conv_size", 2}},
           Json{{"num_heads", 3}, {"qk_activation", "identity"}, {"use_short_conv", false}},
           Json{{"num_heads", 3}, {"qk_activation", "elu"}, {"use_short_conv", false}},
       }) {
    SCOPED_TRACE(config);
    config["hidden_size"] = kHidden;
    RandomWeights weights(1);
    const auto mixer = MakeMixer("delta_net", kHidden, config, weights);
    ExpectMatches(*mixer, x, Expected(weights, x, config), 5e-5);
  }
}

// β = 0 writes nothing.
TEST(DeltaNetTest, ABetaOfZeroLeavesTheState) {
  RandomWeights weights(1);
  std::vector<float> beta(kHidden * 3);
  for (int64_t head = 0; head < 3; ++head) beta[head * kHidden] = -1000;
  weights.Set("m.b_proj.weight", beta);
  const auto mixer =
      MakeMixer("delta_net", kHidden, {{"num_heads", 3}, {"use_short_conv", false}}, weights);
  auto x = RandomNormals(2, kReferenceRows * kHidden);
  for (int64_t row = 0; row < kReferenceRows; ++row) x[row * kHidden] = 1;
  for (const Form form : kForms) {
    Sequence sequence(*mixer);
    sequence.state = RandomNormals(3, StateFloats(*mixer));
    const auto before = sequence.state;
    Feed(*mixer, sequence, x, kReferenceRows, form);
    EXPECT_EQ(sequence.state, before) << FormName(form);
  }
}

// β = 1 and keys of length one: what was stored last under a key is what the key reads.
TEST(DeltaNetTest, AKeyReadsWhatWasStoredLast) {
  constexpr int64_t kDim = 6;
  std::vector<float> identity(kDim * kDim);
  for (int64_t i = 0; i < kDim; ++i) identity[i * kDim + i] = 1;
  RandomWeights weights(1);
  for (const char* name : {"q", "k", "o"}) {
    weights.Set("m." + std::string(name) + "_proj.weight", identity);
  }
  const auto mixer = MakeMixer("delta_net", kDim,
                               {{"num_heads", 1},
                                {"use_beta", false},
                                {"use_short_conv", false},
                                {"qk_activation", "identity"}},
                               weights);
  std::vector<float> x(8 * kDim);
  for (int64_t t = 0; t < 8; ++t) x[t * kDim + t % 2] = static_cast<float>(t + 1);
  Sequence sequence(*mixer);
  Feed(*mixer, sequence, x, 8, Form::kChunkwise);
  const Doubles last(x.end() - 2 * kDim, x.end());
  const Doubles v = ReferenceLinear(weights, "v_proj.weight", last, kDim, kDim);
  for (int64_t i = 0; i < 2 * kDim; ++i) {
    EXPECT_NEAR(sequence.state[i], ReferenceSilu(v[i]), 1e-5);
  }
}

TEST(DeltaNetTest, WrongFieldsAreRefusedByName) {
  ExpectRefused("delta_net", kHidden, {{"num_heads", 3}},
                {{"num_heads", -3},
                 {"expand_k", 0.3},
                 {"expand_v", 0.31},
                 {"qk_activation", "swish"},
                 {"qk_norm", "l1"},
                 {"use_beta", 1},
                 {"allow_neg_eigval", "true"},
                 {"use_gate", 1},
                 {"conv_size", 100},
                 {"norm_eps", 2}});
}

}  // namespace
}  // namespace fermata
