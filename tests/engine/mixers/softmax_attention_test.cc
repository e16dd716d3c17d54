#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 36, kHeads = 6, kHeadDim = 6, kCount = 90;

struct Reference {
  int64_t kv_heads = kHeads;
  int64_t window = kCount;
  bool bias = false;
  bool head_norm = false;
  double rope_theta = 0;  // 0: none.
};

// q or k: projected, normalised, and turned as pairs (i, i + head_dim/2).
Doubles Heads(RandomWeights& weights, const std::string& name, const Doubles& x, int64_t heads,
              const Reference& reference) {
  const int64_t width = heads * kHeadDim;
  Doubles y = ReferenceLinear(weights, name + "_proj.weight", x, kHidden, width);
  if (reference.bias) {
    const Doubles bias = Tensor(weights, name + "_proj.bias", {width});
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % width];
  }
  if (name == "v") return y;
  if (reference.head_norm) {
    ReferenceRmsNorm(y, kHeadDim, 1e-5, Tensor(weights, name + "_norm.weight", {kHeadDim}));
  }
  if (reference.rope_theta > 0) ReferenceRotate(y, heads, kHeadDim, reference.rope_theta);
  return y;
}

// The layer in float64, one token and one head after another.
Doubles Expected(RandomWeights& weights, const std::vector<float>& input,
                 const Reference& reference) {
  const Doubles x(input.begin(), input.end());
  const int64_t kv_heads = reference.kv_heads;
  const Doubles q = Heads(weights, "q", x, kHeads, reference);
  const Doubles k = Heads(weights, "k", x, kv_heads, reference);
  const Doubles v = Heads(weights, "v", x, kv_heads, reference);
  Doubles o(kCount * kHidden);
  for (int64_t t = 0; t < kCount; ++t) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t kv_head = head / (kHeads / kv_heads);
      double sum = 0;
      double* out = &o[t * kHidden + head * kHeadDim];
      for (int64_t s = std::max<int64_t>(0, t - reference.window + 1); s <= t; ++s) {
        const int64_t at = (s * kv_heads + kv_head) * kHeadDim;
        double score = 0;
        for (int64_t i = 0; i < kHeadDim; ++i) {
          score += q[t * kHidden + head * kHeadDim + i] * k[at + i];
        }
        const double weight = std::exp(score / std::sqrt(static_cast<double>(kHeadDim)));
        sum += weight;
        for (int64_t i = 0; i < kHeadDim; ++i) out[i] += weight * v[at + i];
      }
      for (int64_t i = 0; i < kHeadDim; ++i) out[i] /= sum;
    }
  }
  return ReferenceLinear(weights, "o_proj.weight", o, kHidden, kHidden);
}

TEST(SoftmaxAttentionTest, MatchesFloat64) {
  struct {
    Json config;
    Reference reference;
  } const cases[] = {
      {{{"rope_theta", nullptr}}, {}},
      {Json::object(), {.rope_theta = 10000}},
      {{{"rope_theta", 50}, {"num_kv_heads", 2}}, {.kv_heads = 2, .rope_theta = 50}},
      {{{"qkv_bias", true}, {"qk_norm", true}},
       {.bias = true, .head_norm = true, .rope_theta = 10000}},
      {{{"window_size", 1}}, {.window = 1, .rope_theta = 10000}},
      {{{"window_size", 17}, {"num_kv_heads", 3}},
       {.kv_heads = 3, .window = 17, .rope_theta = 10000}},
  };
  const auto x = RandomNormals(2, kCount * kHidden);
  for (const auto& each : cases) {
    RandomWeights weights(1);
    Json config = each.config;
    config["num_heads"] = kHeads;
    const auto mixer = MakeMixer("softmax_attn", kHidden, config, weights);
    const Doubles expected = Expected(weights, x, each.reference);
    for (const Form form : kForms) {
      SCOPED_TRACE(testing::Message() << config << ", " << FormName(form));
      Sequence sequence(*mixer);
      const std::vector<int64_t> cuts = {1, 2, 40, kCount};
      EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 1e-5);
    }
  }
}

// What the metrics call the KV equivalent is what this mixer really holds.
TEST(SoftmaxAttentionTest, HoldsTheBytesOfTheKvEquivalent) {
  RandomWeights weights(1);
  const auto mixer =
      MakeMixer("softmax_attn", kHidden, {{"num_heads", kHeads}, {"num_kv_heads", 2}}, weights);
  EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), 2 * 2 * kHeadDim);
  EXPECT_EQ(StateFloats(*mixer), 0);
  Sequence sequence(*mixer);
  for (int64_t position = 1; position <= 70; ++position) {
    Feed(*mixer, sequence, RandomNormals(position, kHidden), 1, Form::kRecurrent);
    EXPECT_EQ(sequence.cache.size() * sizeof(float),
              mixer->kv_equivalent_floats_per_position() * sizeof(float) * position);
  }
}

TEST(SoftmaxAttentionTest, AWindowIsAStateOfFixedSize) {
  RandomWeights weights(1);
  const auto mixer =
      MakeMixer("softmax_attn", kHidden, {{"num_heads", kHeads}, {"window_size", 8}}, weights);
  EXPECT_EQ(mixer->cache_floats_per_position(), 0);
  EXPECT_EQ(StateFloats(*mixer), 8 * mixer->kv_equivalent_floats_per_position());
}

TEST(SoftmaxAttentionTest, WrongFieldsAreRefusedByName) {
  struct {
    std::string field;
    Json value;
  } const cases[] = {{"num_heads", 5},
                     {"num_kv_heads", 4},
                     {"window_size", 0},
                     {"rope_theta", -1},
                     {"qk_norm", "yes"}};
  for (const auto& each : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", kHeads}};
    config[each.field] = each.value;
    const auto mixer = TryMixer("softmax_attn", kHidden, config, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << each.field;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(each.field));
  }
  // A head of three elements has no pairs to turn.
  RandomWeights weights(1);
  EXPECT_FALSE(TryMixer("softmax_attn", kHidden, {{"num_heads", 12}}, weights).ok());
  EXPECT_TRUE(
      TryMixer("softmax_attn", kHidden, {{"num_heads", 12}, {"rope_theta", nullptr}}, weights)
          .ok());
}

}  // namespace
}  // namespace fermata
