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

constexpr int64_t kHidden = 42, kHeads = 3, kCount = 90;

struct Reference {
  int64_t head_dim = 14;
  bool per_channel = true, gate = true;
  double eps = 64e-5;
};

// "Eagle and Finch", equations 4 and 5, head by head.
Doubles Expected(RandomWeights& weights, const Doubles& x, const Reference& c) {
  const int64_t dim = kHeads * c.head_dim;
  const Doubles r = ReferenceMixedLinear(weights, "x_r", "r_proj", x, kHidden, dim);
  const Doubles k = ReferenceMixedLinear(weights, "x_k", "k_proj", x, kHidden, dim);
  const Doubles v = ReferenceMixedLinear(weights, "x_v", "v_proj", x, kHidden, dim);
  const int64_t decays = c.per_channel ? dim : kHeads;
  const Doubles w = Tensor(weights, "time_decay", {decays});
  const Doubles u = Tensor(weights, "bonus", {decays});
  Doubles o(kCount * dim);
  for (int64_t head = 0; head < kHeads; ++head) {
    Doubles S(c.head_dim * c.head_dim);
    for (int64_t t = 0; t < kCount; ++t) {
      const int64_t at = t * dim + head * c.head_dim;
      for (int64_t i = 0; i < c.head_dim; ++i) {
        const int64_t channel = c.per_channel ? head * c.head_dim + i : head;
        for (int64_t j = 0; j < c.head_dim; ++j) {
          double& s = S[i * c.head_dim + j];
          const double pair = k[at + i] * v[at + j];
          o[at + j] += r[at + i] * (u[channel] * pair + s);
          s = std::exp(-std::exp(w[channel])) * s + pair;
        }
      }
    }
  }
  ReferenceGroupNorm(weights, "g_norm", o, c.head_dim, kHeads, c.eps);
  if (c.gate) {
    const Doubles g = ReferenceMixedLinear(weights, "x_g", "g_proj", x, kHidden, dim);
    for (size_t i = 0; i < o.size(); ++i) o[i] *= ReferenceSilu(g[i]);
  }
  return ReferenceLinear(weights, "o_proj.weight", o, dim, kHidden);
}

TEST(Rwkv5Test, MatchesFloat64) {
  struct {
    Json config;
    Reference reference;
  } const cases[] = {
      {Json::object(), {}},
      {{{"decay_per_channel", false}}, {.per_channel = false}},
      {{{"decay_per_channel", false}, {"use_gate", false}}, {.per_channel = false, .gate = false}},
      {{{"attention_hidden_size", 33}, {"g_norm_eps", 0.5}}, {.head_dim = 11, .eps = 0.5}},
  };
  const auto x = RandomNormals(2, kCount * kHidden);
  for (const auto& [changes, reference] : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", kHeads}};
    config.update(changes);
    const auto mixer = MakeMixer("rwkv5", kHidden, config, weights);
    const Doubles expected = Expected(weights, {x.begin(), x.end()}, reference);
    EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), 2 * kHeads * reference.head_dim);
    for (const Form form : kForms) {
      SCOPED_TRACE(testing::Message() << config << ", " << FormName(form));
      Sequence sequence(*mixer);
      const std::vector<int64_t> cuts = {1, 2, 40, kCount};
      EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 2e-5);
    }
  }
}

TEST(Rwkv5Test, WrongFieldsAreRefusedByName) {
  struct {
    std::string field;
    Json value;
    std::string named;
  } const cases[] = {{"num_heads", nullptr, "num_heads"},
                     {"num_heads", 5, "num_heads"},
                     {"attention_hidden_size", 40, "num_heads"},
                     {"attention_hidden_size", -1, "attention_hidden_size"},
                     {"decay_per_channel", 1, "decay_per_channel"},
                     {"use_gate", "yes", "use_gate"},
                     {"g_norm_eps", -1e-5, "g_norm_eps"}};
  for (const auto& each : cases) {
    RandomWeights weights(1);
    Json config = {{"num_heads", kHeads}};
    config[each.field] = each.value;
    const auto mixer = TryMixer("rwkv5", kHidden, config, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << each.field;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(each.named));
  }
}

}  // namespace
}  // namespace fermata
