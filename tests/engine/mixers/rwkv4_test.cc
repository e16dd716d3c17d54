#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/rwkv_reference.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

constexpr int64_t kHidden = 21, kDim = 70, kCount = 90;

// The weighted sums of "RWKV: Reinventing RNNs for the Transformer Era", equation 16, each computed
// anew for each token.
Doubles Wkv(const Doubles& k, const Doubles& v, const Doubles& w, const Doubles& u) {
  const auto dim = static_cast<int64_t>(w.size());
  Doubles o(k.size());
  for (size_t i = 0; i < k.size(); ++i) {
    const auto channel = static_cast<int64_t>(i) % dim;
    const auto t = static_cast<int64_t>(i) / dim;
    double above = std::exp(u[channel] + k[i]) * v[i], below = std::exp(u[channel] + k[i]);
    for (int64_t s = 0; s < t; ++s) {
      const double weight =
          std::exp(-static_cast<double>(t - 1 - s) * w[channel] + k[s * dim + channel]);
      above += weight * v[s * dim + channel];
      below += weight;
    }
    o[i] = above / below;
  }
  return o;
}

Doubles Expected(RandomWeights& weights, const Doubles& x) {
  const Doubles r = ReferenceMixedLinear(weights, "x_r", "r_proj", x, kHidden, kDim);
  const Doubles k = ReferenceMixedLinear(weights, "x_k", "k_proj", x, kHidden, kDim);
  const Doubles v = ReferenceMixedLinear(weights, "x_v", "v_proj", x, kHidden, kDim);
  Doubles w = Tensor(weights, "time_decay", {kDim});
  for (double& each : w) each = std::exp(each);
  Doubles o = Wkv(k, v, w, Tensor(weights, "time_first", {kDim}));
  for (size_t i = 0; i < o.size(); ++i) o[i] *= ReferenceSigmoid(r[i]);
  return ReferenceLinear(weights, "o_proj.weight", o, kDim, kHidden);
}

TEST(Rwkv4Test, MatchesFloat64) {
  RandomWeights weights(1);
  const auto mixer = MakeMixer("rwkv4", kHidden, {{"attention_hidden_size", kDim}}, weights);
  EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), 2 * kDim);
  const auto x = RandomNormals(2, kCount * kHidden);
  const Doubles expected = Expected(weights, {x.begin(), x.end()});
  for (const Form form : kForms) {
    Sequence sequence(*mixer);
    const std::vector<int64_t> cuts = {1, 2, 40, kCount};
    EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 1e-5) << FormName(form);
  }
}

// Keys of ±10^5, of which no exponential is a float.
TEST(Rwkv4Test, EnormousKeysStayFinite) {
  RandomWeights weights(1);
  weights.Set("m.k_proj.weight", std::vector<float>(kHidden * kHidden, 1e4f));
  const auto mixer = MakeMixer("rwkv4", kHidden, nlohmann::json::object(), weights);
  const auto x = RandomNormals(2, kCount * kHidden);
  std::vector<std::vector<float>> outputs;
  for (const Form form : kForms) {
    Sequence sequence(*mixer);
    outputs.push_back(Feed(*mixer, sequence, x, kCount, form));
    for (const float value : outputs.back()) ASSERT_TRUE(std::isfinite(value)) << FormName(form);
    for (const float value : sequence.state) ASSERT_TRUE(std::isfinite(value)) << FormName(form);
    EXPECT_LE(Difference(outputs.back(), outputs.front()), 1e-5) << FormName(form);
  }
}

TEST(Rwkv4Test, WrongFieldsAreRefusedByName) {
  RandomWeights weights(1);
  for (const nlohmann::json& value : {nlohmann::json(0), nlohmann::json("wide")}) {
    const auto mixer = TryMixer("rwkv4", kHidden, {{"attention_hidden_size", value}}, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr("attention_hidden_size"));
  }
}

}  // namespace
}  // namespace fermata
