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

constexpr int64_t kHidden = 42, kCount = 90;

struct Reference {
  int64_t head_dim = 14, value_dim = 42;
  bool fused = true;
  double eps = 14e-5;

  int64_t heads() const { return kHidden / head_dim; }
};

double Identity(double x) { return x; }

// up(activation(down(x))) of module `name`, plus the bias.
Doubles LowRank(RandomWeights& weights, const std::string& name, const Doubles& x, int64_t rank,
                int64_t out, double (*activation)(double), bool bias = true) {
  Doubles inner = ReferenceLinear(weights, name + ".lora.0.weight", x, kHidden, rank);
  for (double& each : inner) each = activation(each);
  Doubles y = ReferenceLinear(weights, name + ".lora.2.weight", inner, rank, out);
  if (!bias) return y;
  const Doubles b = Tensor(weights, name + ".lora.2.bias", {out});
  for (size_t i = 0; i < y.size(); ++i) y[i] += b[i % out];
  return y;
}

struct Vectors {
  Doubles r, w, k, v, kappa, a;
};

// "RWKV-7 Goose", section 4.1.
Vectors MakeVectors(RandomWeights& weights, const Doubles& x, const std::vector<float>* v_first,
                    const Reference& c) {
  const auto mixed = [&](const std::string& mu) { return ReferenceMix(weights, mu, x, kHidden); };
  Vectors y;
  y.r = ReferenceMixedLinear(weights, "x_r", "r_proj", x, kHidden, kHidden);
  y.k = ReferenceMixedLinear(weights, "x_k", "k_proj", x, kHidden, kHidden);
  y.v = ReferenceMixedLinear(weights, "x_v", "v_proj", x, kHidden, c.value_dim);
  y.w = LowRank(weights, "w_lora", mixed("x_w"), 5, kHidden, std::tanh);
  for (double& w : y.w) w = std::exp(-std::exp(-0.5) * ReferenceSigmoid(w));
  y.a = LowRank(weights, "a_lora", mixed("x_a"), 3, kHidden, Identity);
  for (double& a : y.a) a = ReferenceSigmoid(a);
  if (v_first != nullptr) {
    const Doubles nu = LowRank(weights, "v_lora", mixed("x_v"), 4, c.value_dim, Identity);
    for (size_t i = 0; i < y.v.size(); ++i) {
      y.v[i] += ((*v_first)[i] - y.v[i]) * ReferenceSigmoid(nu[i]);
    }
  }
  const Doubles k_k = Tensor(weights, "k_k", {kHidden}), k_a = Tensor(weights, "k_a", {kHidden});
  y.kappa = y.k;
  for (size_t i = 0; i < y.k.size(); ++i) y.kappa[i] *= k_k[i % kHidden];
  for (size_t begin = 0; begin < y.k.size(); begin += c.head_dim) {
    double square = 0;
    for (int64_t i = 0; i < c.head_dim; ++i) square += y.kappa[begin + i] * y.kappa[begin + i];
    const double length = c.fused ? std::sqrt(square + 1e-6) : std::max(std::sqrt(square), 1e-12);
    for (int64_t i = 0; i < c.head_dim; ++i) y.kappa[begin + i] /= length;
  }
  for (size_t i = 0; i < y.k.size(); ++i) y.k[i] *= 1 + (y.a[i] - 1) * k_a[i % kHidden];
  return y;
}

// S_t = S_{t-1} (diag(w) - κᵀ (a ∘ κ)) + vᵀ k in the paper's row vectors, with [value, key] for S.
Doubles Recurrence(const Vectors& y, const Reference& c) {
  const int64_t K = c.head_dim, V = c.value_dim / c.heads();
  Doubles o(kCount * c.value_dim);
  for (int64_t head = 0; head < c.heads(); ++head) {
    Doubles S(V * K);
    for (int64_t t = 0; t < kCount; ++t) {
      const int64_t at_k = t * kHidden + head * K, at_v = t * c.value_dim + head * V;
      for (int64_t j = 0; j < V; ++j) {
        double stored = 0;
        for (int64_t i = 0; i < K; ++i) stored += S[j * K + i] * y.kappa[at_k + i];
        for (int64_t i = 0; i < K; ++i) {
          double& s = S[j * K + i];
          s = s * y.w[at_k + i] - stored * y.a[at_k + i] * y.kappa[at_k + i] +
              y.v[at_v + j] * y.k[at_k + i];
          o[at_v + j] += s * y.r[at_k + i];
        }
      }
    }
  }
  return o;
}

Doubles Expected(RandomWeights& weights, const Doubles& x, const std::vector<float>* v_first,
                 const Reference& c) {
  const Vectors y = MakeVectors(weights, x, v_first, c);
  Doubles o = Recurrence(y, c);
  const int64_t K = c.head_dim, V = c.value_dim / c.heads();
  ReferenceGroupNorm(weights, "g_norm", o, V, c.heads(), c.eps);
  const Doubles r_k = Tensor(weights, "r_k", {c.heads(), K});
  for (int64_t row = 0; row < kCount * c.heads(); ++row) {
    double own = 0;
    for (int64_t i = 0; i < K; ++i) {
      own += y.r[row * K + i] * y.k[row * K + i] * r_k[row % c.heads() * K + i];
    }
    for (int64_t j = 0; j < V; ++j) o[row * V + j] += own * y.v[row * V + j];
  }
  const Doubles g = LowRank(weights, "g_lora", ReferenceMix(weights, "x_g", x, kHidden), 6,
                            c.value_dim, ReferenceSigmoid, false);
  for (size_t i = 0; i < o.size(); ++i) o[i] *= g[i];
  return ReferenceLinear(weights, "o_proj.weight", o, c.value_dim, kHidden);
}

Json Config(const Json& changes) {
  Json config = {{"head_dim", 14},
                 {"decay_low_rank_dim", 5},
                 {"a_low_rank_dim", 3},
                 {"v_low_rank_dim", 4},
                 {"gate_low_rank_dim", 6}};
  config.update(changes);
  return config;
}

TEST(Rwkv7Test, MatchesFloat64) {
  struct {
    Json config;
    Reference reference;
  } const cases[] = {
      {Json::object(), {}},
      {{{"fuse_norm", false}}, {.fused = false}},
      {{{"head_dim", nullptr}, {"num_heads", 6}, {"norm_eps", 0.1}}, {.head_dim = 7, .eps = 0.7}},
      {{{"num_heads", 9}, {"value_dim", {84, 84, 84}}, {"g_norm_eps", 0.2}},
       {.value_dim = 84, .eps = 0.2}},
  };
  const auto x = RandomNormals(2, kCount * kHidden);
  for (const auto& [changes, reference] : cases) {
    for (const int64_t layer : {0, 2}) {
      RandomWeights weights(1);
      const Json config = Config(changes);
      const auto mixer = MakeMixer("rwkv7", kHidden, config, weights, layer);
      const std::vector<float> v_first = ValueResidual(*mixer, x, kCount);
      const Doubles expected =
          Expected(weights, {x.begin(), x.end()}, layer == 0 ? nullptr : &v_first, reference);
      EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), kHidden + reference.value_dim);
      EXPECT_EQ(mixer->value_residual_floats(), reference.value_dim);
      for (const Form form : kForms) {
        SCOPED_TRACE(testing::Message() << config << ", layer " << layer << FormName(form));
        Sequence sequence(*mixer);
        const std::vector<int64_t> cuts = {1, 2, 40, kCount};
        EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, form), expected), 5e-5);
      }
    }
  }
}

TEST(Rwkv7Test, TheFirstLayerLeavesItsValuesForTheOthers) {
  RandomWeights weights(1);
  const auto mixer = MakeMixer("rwkv7", kHidden, Config(Json::object()), weights);
  const auto x = RandomNormals(2, kCount * kHidden);
  Sequence sequence(*mixer);
  Arena arena;
  std::vector<float> out(x.size()), residual(x.size());
  const SequenceRows rows = sequence.Rows(0, kCount);
  mixer->Forward({&rows, 1}, x.data(), kCount, out.data(),
                 {.arena = &arena, .value_residual = residual.data()});
  EXPECT_LE(Difference(residual, ReferenceMixedLinear(weights, "x_v", "v_proj",
                                                      {x.begin(), x.end()}, kHidden, kHidden)),
            1e-5);
}

// flash-linear-attention's formulas for the ranks, at sizes of published models.
TEST(Rwkv7Test, RanksFollowFromTheSize) {
  struct {
    Json config;
    int64_t hidden, decay, rate, value, gate;
  } const cases[] = {
      {Json::object(), 768, 64, 64, 32, 128},   // 69.3, 47.1, 138.6
      {Json::object(), 1024, 64, 64, 64, 160},  // 80, half way between 64 and 96; 54.4, 160
      {{{"head_dim", 128}, {"gate_low_rank_dim", nullptr}, {"a_low_rank_dim", 17}},
       768,
       128,
       17,
       96,
       128},
      {Json::object(), 64, 32, 32, 32, 32},
  };
  for (const auto& each : cases) {
    RandomWeights weights(1);
    MakeMixer("rwkv7", each.hidden, each.config, weights, 1);
    const auto rank = [&](const std::string& letter) {
      return weights.asked().at("m." + letter + "_lora.lora.0.weight").front();
    };
    EXPECT_EQ(rank("w"), each.decay) << each.hidden;
    EXPECT_EQ(rank("a"), each.rate) << each.hidden;
    EXPECT_EQ(rank("v"), each.value) << each.hidden;
    EXPECT_EQ(rank("g"), each.gate) << each.hidden;
  }
}

TEST(Rwkv7Test, WrongFieldsAreRefusedByName) {
  struct {
    Json changes;
    std::string named;
  } const cases[] = {{{{"head_dim", 10}}, "head_dim"},
                     {{{"head_dim", 0}}, "head_dim"},
                     {{{"head_dim", nullptr}, {"num_heads", 5}}, "num_heads"},
                     {{{"value_dim", 43}}, "value_dim"},
                     {{{"value_dim", {42, 84, 84}}}, "value_dim"},
                     {{{"value_dim", {42, 42}}}, "value_dim"},
                     {{{"decay_low_rank_dim", 0}}, "decay_low_rank_dim"},
                     {{{"fuse_norm", "no"}}, "fuse_norm"},
                     {{{"norm_eps", -1}}, "norm_eps"}};
  for (const auto& each : cases) {
    RandomWeights weights(1);
    const auto mixer = TryMixer("rwkv7", kHidden, Config(each.changes), weights, 2);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << each.changes;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(each.named));
  }
}

}  // namespace
}  // namespace fermata
