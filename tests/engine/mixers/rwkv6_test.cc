#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/rwkv_reference.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 36, kCount = 90;

struct Reference {
  int64_t heads = 4, key_dim = 18, value_dim = 36, shift_rank = 32, decay_rank = 64;
  double eps = 1e-5;
  double (*gate)(double) = ReferenceSilu;
};

// up(tanh(down(x))) of module `name`.
Doubles LowRank(RandomWeights& weights, const std::string& name, const Doubles& x, int64_t rank,
                int64_t out) {
  Doubles inner = ReferenceLinear(weights, name + ".lora.0.weight", x, kHidden, rank);
  for (double& each : inner) each = std::tanh(each);
  return ReferenceLinear(weights, name + ".lora.2.weight", inner, rank, out);
}

// "Eagle and Finch", section 4.2: the shift that depends on the data.
Doubles DynamicMix(RandomWeights& weights, const std::string& letter, const Doubles& x,
                   const Reference& c) {
  const std::string name = "x_" + letter;
  const Doubles share = LowRank(weights, name + "_lora", ReferenceMix(weights, "x_x", x, kHidden),
                                c.shift_rank, kHidden);
  const Doubles mu = Tensor(weights, name, {kHidden});
  const Doubles delta = ReferenceShift(x, kHidden);
  Doubles mixed = x;
  for (size_t i = 0; i < x.size(); ++i) mixed[i] += (mu[i % kHidden] + share[i]) * delta[i];
  return mixed;
}

Doubles Projected(RandomWeights& weights, const std::string& letter, const Doubles& x, int64_t out,
                  const Reference& c) {
  return ReferenceLinear(weights, letter + "_proj.weight", DynamicMix(weights, letter, x, c),
                         kHidden, out);
}

// … and the time mix.
Doubles Expected(RandomWeights& weights, const Doubles& x, const Reference& c) {
  const Doubles r = Projected(weights, "r", x, c.key_dim, c);
  const Doubles k = Projected(weights, "k", x, c.key_dim, c);
  const Doubles v = Projected(weights, "v", x, c.value_dim, c);
  const Doubles g = Projected(weights, "g", x, c.value_dim, c);
  Doubles w = LowRank(weights, "w_lora", DynamicMix(weights, "w", x, c), c.decay_rank, c.key_dim);
  const Doubles w_0 = Tensor(weights, "w_lora.lora.2.bias", {c.key_dim});
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::exp(-std::exp(w[i] + w_0[i % c.key_dim]));
  const int64_t K = c.key_dim / c.heads, V = c.value_dim / c.heads;
  const Doubles u = Tensor(weights, "bonus", {c.heads, K});
  Doubles o(kCount * c.value_dim);
  for (int64_t head = 0; head < c.heads; ++head) {
    Doubles S(K * V);
    for (int64_t t = 0; t < kCount; ++t) {
      const int64_t at_k = t * c.key_dim + head * K, at_v = t * c.value_dim + head * V;
      for (int64_t i = 0; i < K; ++i) {
        for (int64_t j = 0; j < V; ++j) {
          const double pair = k[at_k + i] * v[at_v + j];
          o[at_v + j] += r[at_k + i] * (u[head * K + i] * pair + S[i * V + j]);
          S[i * V + j] = w[at_k + i] * S[i * V + j] + pair;
        }
      }
    }
  }
  ReferenceGroupNorm(weights, "g_norm", o, V, c.heads, c.eps);
  for (size_t i = 0; i < o.size(); ++i) o[i] *= c.gate(g[i]);
  return ReferenceLinear(weights, "o_proj.weight", o, c.value_dim, kHidden);
}

TEST(Rwkv6Test, MatchesFloat64) {
  struct {
    Json config;
    Reference reference;
  } const cases[] = {
      {{{"expand_k", 0.5}}, {.heads = 2}},
      {{{"num_heads", 3},
        {"expand_k", 0.75},
        {"expand_v", 1.5},
        {"proj_low_rank_dim", 5},
        {"gate_low_rank_dim", 7},
        {"gate_fn", "sigmoid"},
        {"norm_eps", 0.3}},
       {3, 27, 54, 5, 7, 0.3, ReferenceSigmoid}},
      {{{"num_heads", 6}, {"expand_k", 1}, {"g_norm_eps", 64e-5}},
       {.heads = 6, .key_dim = 36, .eps = 64e-5}},
  };
  const auto x = RandomNormals(2, kCount * kHidden);
  for (const auto& [changes, reference] : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", reference.heads}};
    config.update(changes);
    const auto mixer = MakeMixer("rwkv6", kHidden, config, weights);
    const Doubles expected = Expected(weights, {x.begin(), x.end()}, reference);
    EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), reference.key_dim + reference.value_dim);
    for (const Form form : kForms) {
      SCOPED_TRACE(testing::Message() << config << ", " << FormName(form));
      Sequence sequence(*mixer);
      const std::vector<int64_t> cuts = {1, 2, 40, kCount};
      EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 3e-5);
    }
  }
}

TEST(Rwkv6Test, TheDefaultsAreThoseOfThePublishedConfigClass) {
  RandomWeights weights(1);
  MakeMixer("rwkv6", 64, Json::object(), weights);
  const auto& asked = weights.asked();
  EXPECT_EQ(asked.at("m.bonus"), std::vector<int64_t>({4, 8}));
  EXPECT_EQ(asked.at("m.v_proj.weight"), std::vector<int64_t>({64, 64}));
  EXPECT_EQ(asked.at("m.x_r_lora.lora.0.weight"), std::vector<int64_t>({32, 64}));
  EXPECT_EQ(asked.at("m.w_lora.lora.2.weight"), std::vector<int64_t>({32, 64}));
}

TEST(Rwkv6Test, WrongFieldsAreRefusedByName) {
  struct {
    std::string field;
    Json value;
    std::string named;
  } const cases[] = {{"num_heads", 5, "num_heads"},
                     {"num_heads", 0, "num_heads"},
                     {"expand_k", 0.3, "num_heads"},
                     {"expand_v", -1, "expand_v"},
                     {"proj_low_rank_dim", 0, "proj_low_"},
                     {"gate_low_rank_dim", 1.5, "gate_low_"},
                     {"gate_fn", "maxout", "gate_fn"},
                     {"norm_eps", "small", "norm_eps"},
                     {"elementwise_affine", 1, "elementwise_affine"}};
  for (const auto& each : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", 3}};
    config[each.field] = each.value;
    const auto mixer = TryMixer("rwkv6", kHidden, config, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << each.field;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(each.named));
  }
}

}  // namespace
}  // namespace fermata
