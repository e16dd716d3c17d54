#include <cmath>
#include <string>
#include <vector>

#include "engine/features/feature_map.h"
#include "engine/kernels/decay_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

// The layer in float64, as its formulas stand, for φ = elu + 1 and φ = identity.
struct Reference {
  int64_t hidden = 0, heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  bool elu = true, norm_q = false, norm_k = false, normalise = false, output_norm = true;
  bool gate = false;
  int64_t taps = 0;
  bool conv_bias = false;
  Doubles decay = {};
};

Doubles Projected(RandomWeights& weights, const std::string& name, const Doubles& x, int64_t width,
                  const Reference& r) {
  Doubles y = ReferenceLinear(weights, name + "_proj.weight", x, r.hidden, width);
  if (r.taps == 0) return y;
  y = ReferenceConvolve(weights, name + "_conv1d", y,
                        {.width = width, .taps = r.taps, .bias = r.conv_bias});
  for (double& value : y) value = ReferenceSilu(value);
  return y;
}

// φ of each row of x, divided by (its sum + 1e-4) if so wished.
void Features(Doubles& x, int64_t dim, bool elu, bool normalise) {
  for (double& value : x) {
    if (elu) value = value > 0 ? value + 1 : std::exp(value);
  }
  for (size_t row = 0; normalise && row < x.size(); row += dim) {
    double sum = 1e-4;
    for (int64_t i = 0; i < dim; ++i) sum += x[row + i];
    for (int64_t i = 0; i < dim; ++i) x[row + i] /= sum;
  }
}

Doubles Expected(RandomWeights& weights, const std::vector<float>& input, const Reference& r) {
  const Doubles x(input.begin(), input.end());
  Doubles q = Projected(weights, "q", x, r.heads * r.k_dim, r);
  Doubles k = Projected(weights, "k", x, r.kv_heads * r.k_dim, r);
  const Doubles v = Projected(weights, "v", x, r.kv_heads * r.v_dim, r);
  Features(q, r.k_dim, r.elu, r.norm_q);
  Features(k, r.k_dim, r.elu, r.norm_k);
  const auto rows = static_cast<int64_t>(x.size()) / r.hidden;
  Doubles o(rows * r.heads * r.v_dim);
  for (int64_t head = 0; head < r.heads; ++head) {
    const int64_t kv_head = head / (r.heads / r.kv_heads);
    const double decay = r.decay.empty() ? 1 : static_cast<float>(r.decay[head]);
    Doubles S(r.k_dim * r.v_dim), z(r.k_dim);
    for (int64_t t = 0; t < rows; ++t) {
      const double* q_t = &q[(t * r.heads + head) * r.k_dim];
      const double* k_t = &k[(t * r.kv_heads + kv_head) * r.k_dim];
      const double* v_t = &v[(t * r.kv_heads + kv_head) * r.v_dim];
      double* o_t = &o[(t * r.heads + head) * r.v_dim];
      double denominator = 0;
      for (int64_t i = 0; i < r.k_dim; ++i) {
        const double q_i = q_t[i] / std::sqrt(static_cast<double>(r.k_dim));
        z[i] = decay * z[i] + k_t[i];
        denominator += q_i * z[i];
        for (int64_t j = 0; j < r.v_dim; ++j) {
          double& s = S[i * r.v_dim + j];
          s = decay * s + k_t[i] * v_t[j];
          o_t[j] += q_i * s;
        }
      }
      for (int64_t j = 0; r.normalise && j < r.v_dim; ++j) o_t[j] /= denominator;
    }
  }
  if (r.output_norm) {
    ReferenceRmsNorm(o, r.v_dim, 1e-6, Tensor(weights, "norm.weight", {r.v_dim}));
  }
  if (r.gate) {
    const Doubles gate = ReferenceLinear(weights, "g_proj.weight", x, r.hidden, r.heads * r.v_dim);
    for (size_t i = 0; i < o.size(); ++i) o[i] *= ReferenceSilu(gate[i]);
  }
  return ReferenceLinear(weights, "o_proj.weight", o, r.heads * r.v_dim, r.hidden);
}

TEST(LinearAttentionLayerTest, MatchesFloat64) {
  const Json decay = {0.5, 0.75, 0.9, 0.97, 0.99, 1.0};
  struct {
    Json config;
    Reference reference;
  } cases[] = {
      {Json::object(), {}},
      {{{"norm_feature_map", true}}, {.normalise = true}},
      {{{"norm_feature_map", true}, {"decay", decay}}, {.normalise = true, .decay = decay}},
      {{{"norm_q", true}, {"norm_k", true}}, {.norm_q = true, .norm_k = true}},
      {{{"num_kv_heads", 2}, {"expand_k", 0.5}, {"expand_v", 2}, {"decay", decay}},
       {.kv_heads = 2, .k_dim = 3, .v_dim = 12, .decay = decay}},
      {{{"feature_map", "identity"}, {"output_norm", "identity"}},
       {.elu = false, .output_norm = false}},
      {{{"norm_feature_map", true},
        {"num_kv_heads", 3},
        {"decay", decay},
        {"use_short_conv", true},
        {"conv_size", 3},
        {"conv_bias", true},
        {"use_output_gate", true}},
       {.kv_heads = 3,
        .normalise = true,
        .gate = true,
        .taps = 3,
        .conv_bias = true,
        .decay = decay}},
  };
  constexpr int64_t kHidden = 36, kHeads = 6, kCount = 90;
  const auto x = RandomNormals(2, kCount * kHidden);
  for (auto& [config, reference] : cases) {
    RandomWeights weights(1);
    config["num_heads"] = kHeads;
    if (!config.contains("feature_map")) config["feature_map"] = "elu";
    reference.hidden = kHidden;
    reference.heads = kHeads;
    if (reference.kv_heads == 0) reference.kv_heads = kHeads;
    if (reference.k_dim == 0) reference.k_dim = reference.v_dim = kHidden / kHeads;
    const auto mixer = MakeMixer("linear_attn", kHidden, config, weights);
    const Doubles expected = Expected(weights, x, reference);
    EXPECT_EQ(mixer->kv_equivalent_floats_per_position(),
              reference.kv_heads * (reference.k_dim + reference.v_dim));
    for (const Form form : kForms) {
      SCOPED_TRACE(testing::Message() << config << ", " << FormName(form));
      Sequence sequence(*mixer);
      const std::vector<int64_t> cuts = {1, 2, 40, kCount};
      EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 2e-5);
    }
  }
}

std::vector<float> Identity(int64_t size) {
  std::vector<float> matrix(size * size);
  for (int64_t i = 0; i < size; ++i) matrix[i * size + i] = 1;
  return matrix;
}

// One head, with all projections the identity and nothing behind the recurrence.
class BareTest : public testing::Test {
 protected:
  static constexpr int64_t kDim = 9, kCount = 30, kSize = kCount * kDim;

  BareTest() {
    for (const char* name : {"q", "k", "v", "o"}) {
      weights_.Set(std::string("m.") + name + "_proj.weight", Identity(kDim));
    }
  }

  static Json Config(const Json& changes = Json::object()) {
    Json config = {{"num_heads", 1}, {"feature_map", "identity"}, {"output_norm", "identity"}};
    config.update(changes);
    return config;
  }

  std::vector<float> Output(const Json& config, const std::vector<float>& x, Form form) {
    const auto mixer = MakeMixer("linear_attn", kDim, config, weights_);
    Sequence sequence(*mixer);
    return Feed(*mixer, sequence, x, static_cast<int64_t>(x.size()) / kDim, form);
  }

  RandomWeights weights_{1};
  const std::vector<float> x_ = RandomNormals(2, kSize);
};

// o_t = (Σ_{s ≤ t} x_s x_sᵀ) x_t / √d.
TEST_F(BareTest, IdentityFeaturesAreALinearLayerOfTheQuery) {
  Doubles second_moment(kDim * kDim), expected;
  for (int64_t t = 0; t < kCount; ++t) {
    const float* x = &x_[t * kDim];
    for (int64_t i = 0; i < kDim * kDim; ++i) second_moment[i] += x[i / kDim] * x[i % kDim];
    for (int64_t j = 0; j < kDim; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < kDim; ++i) sum += second_moment[i * kDim + j] * x[i];
      expected.push_back(sum / std::sqrt(static_cast<double>(kDim)));
    }
  }
  for (const Form form : kForms) {
    EXPECT_LE(Difference(Output(Config(), x_, form), expected), 1e-6) << FormName(form);
  }
}

TEST_F(BareTest, TheOutputIsLinearInTheValues) {
  const auto a = RandomNormals(3, kDim * kDim), b = RandomNormals(4, kDim * kDim);
  std::vector<float> sum(kDim * kDim);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + 2 * b[i];
  const Json config = Config({{"feature_map", "elu"}, {"norm_feature_map", true}});
  for (const Form form : kForms) {
    std::vector<std::vector<float>> outputs;
    for (const auto& v : {a, b, sum}) {
      weights_.Set("m.v_proj.weight", v);
      outputs.push_back(Output(config, x_, form));
    }
    Doubles expected(outputs[0].size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = outputs[0][i] + 2.0 * outputs[1][i];
    EXPECT_LE(Difference(outputs[2], expected), 3e-6) << FormName(form);
  }
}

TEST_F(BareTest, ADecayOfOneIsNoDecayToTheBit) {
  for (const Form form : kForms) {
    const auto config = Config({{"feature_map", "elu"}, {"norm_feature_map", true}});
    Json with = config;
    with["decay"] = {1.0};
    EXPECT_EQ(Output(with, x_, form), Output(config, x_, form));
    with["decay"] = {0.99};
    EXPECT_NE(Output(with, x_, form), Output(config, x_, form));
  }
}

// With a normaliser and one value for all tokens, o is that value whatever the features: weights
// that are positive and add up to one.
TEST_F(BareTest, TheNormaliserMakesAnAverage) {
  std::vector<float> x = x_;
  for (int64_t t = 0; t < kCount; ++t) x[t * kDim] = 1;
  std::vector<float> pick(kDim * kDim);  // Every value is 3 · x[0].
  for (int64_t i = 0; i < kDim; ++i) pick[i * kDim] = 3;
  weights_.Set("m.v_proj.weight", pick);
  for (const Form form : kForms) {
    const auto out = Output(
        Config({{"feature_map", "elu"}, {"norm_feature_map", true}, {"decay", {0.8}}}), x, form);
    for (const float value : out) EXPECT_NEAR(value, 3, 1e-5);
  }
}

// x_2 is orthogonal to x_1 + x_2: the second denominator is lost to cancellation.
TEST_F(BareTest, ClampedDenominatorsAreCounted) {
  std::vector<float> x(2 * kDim);
  x[0] = 1;
  x[kDim] = -0.5;
  x[kDim + 1] = 0.5;
  const auto mixer = MakeMixer("linear_attn", kDim, Config({{"norm_feature_map", true}}), weights_);
  for (const Form form : kForms) {
    Sequence sequence(*mixer);
    MixerCounters counters{.denominator_clamps = 5};
    const auto out = Feed(*mixer, sequence, x, 2, form, &counters);
    EXPECT_EQ(counters.denominator_clamps, 6) << FormName(form);
    for (const float value : out) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(LinearAttentionLayerTest, ATiedFeatureMapMayBeStoredOnce) {
  constexpr int64_t kHidden = 12, kCount = 5;
  const auto x = RandomNormals(2, kCount * kHidden);
  struct {
    std::string map;
    std::string tensor;
    int64_t rows;
  } const cases[] = {{"t2r", "layer.weight", 6}, {"favor", "omega", 12}};
  for (const auto& each : cases) {
    const auto output = [&](bool tie, bool has_q, bool has_k) {
      RandomWeights weights(1);
      for (const auto& [name, there] : {std::pair("q", has_q), std::pair("k", has_k)}) {
        const std::string tensor = "m.feature_map_" + std::string(name) + "." + each.tensor;
        if (there) {
          weights.Set(tensor, RandomNormals(9, each.rows * 6));
        } else {
          weights.Remove(tensor);
        }
      }
      const auto mixer = TryMixer(
          "linear_attn", kHidden,
          {{"num_heads", 2}, {"feature_map", each.map}, {"tie_feature_map_qk", tie}}, weights);
      if (!mixer.ok()) return std::vector<float>();
      Sequence sequence(**mixer);
      return Feed(**mixer, sequence, x, kCount, Form::kRecurrent);
    };
    const auto expected = output(false, true, true);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(output(true, true, true), expected) << each.map;
    EXPECT_EQ(output(true, true, false), expected) << each.map;
    EXPECT_NE(output(false, true, false), expected) << each.map;
  }
}

TEST(LinearAttentionLayerTest, WrongFieldsAreRefusedByName) {
  struct {
    std::string field;
    Json value;
  } const cases[] = {{"num_heads", 5},
                     {"num_heads", 0},
                     {"num_kv_heads", 3},
                     {"expand_k", 0.3},
                     {"feature_map", "cosine"},
                     {"output_norm", "layernorm"},
                     {"decay", Json::array({0.5, 0.5})},
                     {"decay", Json::array({0.5, 0.0, 0.5, 0.5})},
                     {"decay", Json::array({0.5, 1.5, 0.5, 0.5})},
                     {"conv_size", 0},
                     {"conv_bias", "yes"},
                     {"norm_feature_map", 1}};
  for (const auto& each : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", 4}, {"feature_map", "elu"}, {"use_short_conv", true}};
    config[each.field] = each.value;
    const auto mixer = TryMixer("linear_attn", 24, config, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << each.field;
    EXPECT_THAT(
        std::string(mixer.status().message()),
        testing::HasSubstr(each.field == "num_heads" && each.value == 5 ? "expand_k" : each.field));
  }
}

// Attention with φ in place of exp(q·k/√d), against softmax attention in float64: the root mean
// square of the difference.
class SoftmaxLimitTest : public testing::Test {
 protected:
  static constexpr int64_t kDim = 6, kCount = 40, kSize = kCount * kDim;

  double Error(const std::string& name, const Json& map_options) const {
    RandomWeights none(1);
    none.Remove("omega");
    ConfigReader config({{"feature_map_options", map_options}}, "config.json");
    const auto map = CreateFeatureMap(
        name, {.head_dim = kDim, .config = &config, .weights = WeightScope(none, "")});
    if (!map.ok()) throw std::runtime_error(map.status().ToString());
    const int64_t features = (*map)->feature_dim();
    std::vector<float> q(kCount * features), k(kCount * features), o(kCount * kDim);
    std::vector<float> S(features * kDim), z(features);
    (*map)->Apply(q_.data(), kCount, q.data());
    (*map)->Apply(k_.data(), kCount, k.data());
    DecayRecurrent({.count = kCount,
                    .key_dim = features,
                    .value_dim = kDim,
                    .q = q.data(),
                    .q_stride = features,
                    .k = k.data(),
                    .k_stride = features,
                    .v = v_.data(),
                    .v_stride = kDim,
                    .o = o.data(),
                    .o_stride = kDim,
                    .S = S.data(),
                    .z = z.data()});
    const Doubles expected = Softmax();
    double square = 0;
    for (size_t i = 0; i < o.size(); ++i) square += std::pow(o[i] - expected[i], 2);
    return std::sqrt(square / static_cast<double>(o.size()));
  }

 private:
  Doubles Softmax() const {
    Doubles out(kCount * kDim);
    for (int64_t t = 0; t < kCount; ++t) {
      double sum = 0;
      for (int64_t s = 0; s <= t; ++s) {
        double score = 0;
        for (int64_t i = 0; i < kDim; ++i) score += double{q_[t * kDim + i]} * k_[s * kDim + i];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(kDim)));
        sum += weight;
        for (int64_t i = 0; i < kDim; ++i) out[t * kDim + i] += weight * v_[s * kDim + i];
      }
      for (int64_t i = 0; i < kDim; ++i) out[t * kDim + i] /= sum;
    }
    return out;
  }

  // Of half the length of normals: the variance of positive features grows as exp(|q + k|²), and
  // long ones converge too slowly to see.
  static std::vector<float> Short(uint64_t seed) {
    auto x = RandomNormals(seed, kSize);
    for (float& value : x) value /= 2;
    return x;
  }

  const std::vector<float> q_ = Short(1);
  const std::vector<float> k_ = Short(2);
  const std::vector<float> v_ = RandomNormals(3, kSize);
};

TEST_F(SoftmaxLimitTest, TaylorApproachesSoftmaxAsTheOrderGrows) {
  const auto error = [&](int64_t order) { return Error("taylor", {{"order", order}}); };
  const double second = error(2), fourth = error(4), sixth = error(6);
  EXPECT_LT(fourth, second / 2);
  EXPECT_LT(sixth, fourth / 2);
  EXPECT_LT(sixth, 5e-3);
}

// The error falls as 1/√D: by 4 for D 16 times as large. Averaged over seeds, within a factor of 2.
TEST_F(SoftmaxLimitTest, FavorApproachesSoftmaxAsFeaturesGrow) {
  const auto error = [&](int64_t features) {
    double sum = 0;
    constexpr int64_t kSeeds = 8;
    for (int64_t seed = 0; seed < kSeeds; ++seed) {
      sum += Error("favor", {{"num_features", features}, {"seed", seed}});
    }
    return sum / kSeeds;
  };
  const double few = error(32), many = error(512), most = error(8192);
  EXPECT_LT(many, few / 2);
  EXPECT_LT(most, many / 2);
  EXPECT_LT(most, 0.05);
}

}  // namespace
}  // namespace fermata
