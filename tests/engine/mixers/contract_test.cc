// What every mixer of the registry promises. See engine/mixers/mixer.h.

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/features/feature_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

struct Case {
  std::string mixer;
  std::string what;
  int64_t hidden;
  Json config;
  int64_t layer = 0;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.mixer << ", " << c.what; }

// Sizes are chosen to be no multiples of anything.
std::vector<Case> LinearAttentionCases() {
  const Json basic = {{"num_heads", 3}, {"feature_map", "elu"}};
  const Json changes[] = {
      {},
      {{"norm_feature_map", true}},
      {{"decay", {0.5, 0.97, 1.0}}},
      {{"norm_feature_map", true}, {"decay", {0.5, 0.97, 1.0}}},
      {{"use_short_conv", true}},
      {{"use_short_conv", true}, {"conv_size", 1}},
      {{"use_output_gate", true}},
      {{"num_kv_heads", 1}, {"norm_feature_map", true}, {"decay", {0.5, 0.97, 1.0}}},
      {{"expand_k", 0.5}, {"expand_v", 1.5}, {"norm_q", true}, {"norm_k", true}},
      {{"output_norm", "identity"}},
      {{"elementwise_affine", false}},
      {{"norm_feature_map", true},
       {"num_kv_heads", 1},
       {"decay", {0.9, 0.97, 0.999}},
       {"use_short_conv", true},
       {"conv_size", 5},
       {"use_output_gate", true}},
  };
  std::vector<Case> cases;
  for (const Json& change : changes) {
    Json config = basic;
    if (change.is_object()) config.update(change);
    cases.push_back({"linear_attn", config.dump(), 42, config});
  }
  for (const FeatureMapEntry& map : FeatureMaps()) {
    for (const bool normalise : {false, true}) {
      const Json config = {{"num_heads", 3},
                           {"feature_map", std::string(map.name)},
                           {"norm_feature_map", normalise}};
      cases.push_back({"linear_attn", config.dump(), 18, config});
    }
  }
  return cases;
}

std::vector<Case> SoftmaxAttentionCases() {
  std::vector<Case> cases;
  for (const Json& config : {
           Json{{"num_heads", 3}},
           Json{{"num_heads", 6}, {"num_kv_heads", 2}, {"rope_theta", nullptr}},
           Json{{"num_heads", 3}, {"qkv_bias", true}, {"qk_norm", true}},
           Json{{"num_heads", 3}, {"num_kv_heads", 1}, {"window_size", 1}},
           Json{{"num_heads", 3}, {"window_size", 21}},
           Json{{"num_heads", 3}, {"window_size", 100}},
       }) {
    cases.push_back({"softmax_attn", config.dump(), 42, config});
  }
  return cases;
}

std::vector<Case> RwkvCases() {
  std::vector<Case> cases = {
      {"rwkv4", "70 channels", 21, {{"attention_hidden_size", 70}}},
      {"rwkv5", "plain", 42, {{"num_heads", 6}}},
      {"rwkv5",
       "5.1, 33 channels",
       21,
       {{"num_heads", 3}, {"attention_hidden_size", 33}, {"decay_per_channel", false}}},
      {"rwkv5", "5.0", 21, {{"num_heads", 3}, {"decay_per_channel", false}, {"use_gate", false}}},
      {"rwkv6",
       "wide values",
       42,
       {{"num_heads", 3}, {"expand_v", 1.5}, {"proj_low_rank_dim", 5}, {"gate_low_rank_dim", 7}}},
      {"rwkv6", "no affine", 24, {{"elementwise_affine", false}, {"gate_fn", "sigmoid"}}},
      {"rwkv_channel_mix", "37 wide", 21, {{"intermediate_size", 37}}},
      {"rwkv7_channel_mix", "37 wide", 21, {{"intermediate_size", 37}}},
  };
  const Json narrow = {{"head_dim", 7},           {"fuse_norm", false},  {"a_low_rank_dim", 3},
                       {"decay_low_rank_dim", 5}, {"v_low_rank_dim", 4}, {"gate_low_rank_dim", 6}};
  Json wide = narrow;
  wide.update({{"value_dim", 63}, {"fuse_norm", true}});
  for (const int64_t layer : {0, 2}) {
    cases.push_back({"rwkv7", "narrow", 21, narrow, layer});
    cases.push_back({"rwkv7", "wide values", 21, wide, layer});
  }
  return cases;
}

// Of the layers whose recurrences are linear in their state.
std::vector<Case> RecurrentCases() {
  const struct {
    std::string mixer;
    int64_t hidden;
    Json config;
  } rows[] = {
      {"retention", 42, {{"num_heads", 3}}},
      {"retention", 42, {{"num_heads", 7}, {"num_kv_heads", 1}, {"feature_map", "relu"}}},
      {"retention", 42, {{"num_heads", 3}, {"use_short_conv", true}, {"conv_bias", true}}},
      {"retention", 42, {{"num_heads", 3}, {"use_output_gate", false}, {"expand_v", 0.5}}},
      {"gla", 42, {{"num_heads", 3}}},
      {"gla", 42, {{"num_heads", 6}, {"num_kv_heads", 2}, {"expand_k", 1}, {"expand_v", 2}}},
      {"gla", 42, {{"num_heads", 3}, {"gate_logit_normalizer", 0.05}}},
      {"gla", 42, {{"num_heads", 3}, {"use_short_conv", true}, {"clamp_min", -1}}},
      {"delta_net", 42, {{"num_heads", 3}}},
      {"delta_net", 42, {{"num_heads", 3}, {"use_gate", true}, {"allow_neg_eigval", true}}},
      {"delta_net", 42, {{"num_heads", 2}, {"use_beta", false}, {"use_short_conv", false}}},
      {"delta_net", 42, {{"num_heads", 3}, {"qk_activation", "elu"}, {"qk_norm", "sum"}}},
      {"delta_net", 42, {{"num_heads", 7}, {"expand_k", 0.5}, {"conv_bias", true}}},
      {"gated_delta_net", 30, {{"num_heads", 3}, {"head_dim", 7}}},
      {"gated_delta_net", 30, {{"num_heads", 2}, {"num_v_heads", 6}, {"head_dim", 9}}},
      {"gated_delta_net", 30, {{"num_heads", 2}, {"head_dim", 10}, {"allow_neg_eigval", true}}},
      {"gated_delta_net", 30, {{"num_heads", 1}, {"head_dim", 9}, {"use_short_conv", false}}},
      {"mamba2", 21, {{"head_dim", 7}, {"n_groups", 1}, {"state_size", 10}}},
      {"mamba2", 21, {{"head_dim", 7}, {"n_groups", 3}, {"use_bias", true}}},
      {"mamba2", 21, {{"head_dim", 14}, {"norm_eps", 1e-5}, {"conv_kernel", 1}}},
      {"mamba2", 21, {{"head_dim", 7}, {"n_groups", 2}, {"norm_per_group", true}}},
      {"mamba2", 21, {{"head_dim", 7}, {"n_groups", 1}, {"time_step_limit", {0.5, 40}}}},
  };
  std::vector<Case> cases;
  for (const auto& [mixer, hidden, config] : rows) {
    cases.push_back({mixer, config.dump(), hidden, config});
  }
  return cases;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = LinearAttentionCases();
  for (const Case& c : SoftmaxAttentionCases()) cases.push_back(c);
  for (const Case& c : RecurrentCases()) cases.push_back(c);
  for (const Case& c : RwkvCases()) cases.push_back(c);
  cases.push_back({"gated_mlp", "37 wide", 21, {{"intermediate_size", 37}}});
  return cases;
}

TEST(MixersTest, EveryMixerHasCases) {
  for (const MixerEntry& entry : Mixers()) {
    EXPECT_THAT(Cases(), testing::Contains(testing::Field(&Case::mixer, std::string(entry.name))));
  }
}

TEST(MixersTest, AnUnknownNameIsAnErrorThatListsTheNames) {
  RandomWeights weights(1);
  const auto mixer = TryMixer("quadratic", 8, Json::object(), weights);
  EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument);
  for (const MixerEntry& entry : Mixers()) {
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(std::string(entry.name)));
  }
}

class MixerContractTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kCount = 150;
  static constexpr double kRounding = 5e-5;

  ~MixerContractTest() override { SetComputeThreads(threads_); }

  std::vector<float> Tokens(uint64_t seed, int64_t count = kCount) const {
    return RandomNormals(seed, count * hidden_);
  }

  const int threads_ = ComputeThreads();
  RandomWeights weights_{3};
  const int64_t hidden_ = GetParam().hidden;
  const std::unique_ptr<Mixer> mixer_ =
      MakeMixer(GetParam().mixer, hidden_, GetParam().config, weights_, GetParam().layer);
};

TEST_P(MixerContractTest, FormsAgreeAtRandomCuts) {
  const auto x = Tokens(1);
  Sequence expected_sequence(*mixer_);
  const auto expected = Feed(*mixer_, expected_sequence, x, kCount, Form::kRecurrent);
  for (const Form form : kForms) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(testing::Message() << FormName(form) << ", cuts " << seed);
      Sequence sequence(*mixer_);
      const auto cuts = seed == 0 ? std::vector<int64_t>{kCount} : RandomCuts(kCount, seed);
      const auto out = Feed(*mixer_, sequence, x, cuts, form);
      EXPECT_LE(Difference(out, expected), kRounding);
      EXPECT_LE(Difference(sequence.state, expected_sequence.state), kRounding);
      EXPECT_LE(Difference(sequence.cache, expected_sequence.cache), kRounding);
    }
  }
}

TEST_P(MixerContractTest, RecurrentBitsDoNotDependOnCuts) {
  const auto x = Tokens(1);
  std::vector<int64_t> single(kCount);
  for (int64_t i = 0; i < kCount; ++i) single[i] = i + 1;
  Sequence one_by_one(*mixer_);
  const auto expected = Feed(*mixer_, one_by_one, x, single, Form::kRecurrent);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Sequence sequence(*mixer_);
    const auto out = Feed(*mixer_, sequence, x, RandomCuts(kCount, seed), Form::kRecurrent);
    EXPECT_EQ(out, expected) << "cuts " << seed;
    EXPECT_EQ(sequence, one_by_one) << "cuts " << seed;
  }
}

TEST_P(MixerContractTest, ChunkwiseBitsDoNotDependOnCutsAtChunks) {
  const auto x = Tokens(1);
  Sequence whole(*mixer_), pieces(*mixer_);
  const auto expected = Feed(*mixer_, whole, x, kCount, Form::kChunkwise);
  const int64_t cuts[] = {kChunkTokens, 2 * kChunkTokens, kCount};
  EXPECT_EQ(Feed(*mixer_, pieces, x, cuts, Form::kChunkwise), expected);
  EXPECT_EQ(pieces, whole);
}

// Sequences at several positions, with a run each, in one batch in which their order is not that of
// their rows.
TEST_P(MixerContractTest, BatchedEqualsAloneInEveryFormAndOnAnyThreads) {
  constexpr int64_t kRuns[] = {1, 1, 40, 1, 7, 70};
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    std::vector<Sequence> before;
    std::vector<float> x;
    for (size_t i = 0; i < std::size(kRuns); ++i) {
      before.emplace_back(*mixer_);
      const int64_t past = static_cast<int64_t>(i) * 9;
      if (past > 0) Feed(*mixer_, before.back(), Tokens(i, past), past, form);
      const auto run = Tokens(100 + i, kRuns[i]);
      x.insert(x.end(), run.begin(), run.end());
    }
    std::vector<float> expected;
    std::vector<Sequence> alone = before;
    for (size_t i = 0; i < std::size(kRuns); ++i) {
      const auto out = Feed(*mixer_, alone[i], Tokens(100 + i, kRuns[i]), kRuns[i], form);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    for (const int threads : {1, 3}) {
      SetComputeThreads(threads, 1);
      std::vector<Sequence> batched = before;
      std::vector<SequenceRows> rows;
      int64_t count = 0;
      for (size_t i = 0; i < std::size(kRuns); ++i) {
        rows.insert(rows.begin(), batched[i].Rows(count, kRuns[i]));
        count += kRuns[i];
      }
      Arena arena;
      std::vector<float> out(x.size(), NAN);
      std::vector<float> residual = ValueResidual(*mixer_, x, count);
      mixer_->Forward(rows, x.data(), count, out.data(),
                      {.form = form, .arena = &arena, .value_residual = residual.data()});
      EXPECT_EQ(out, expected) << threads << " threads";
      for (size_t i = 0; i < std::size(kRuns); ++i) {
        batched[i].position += kRuns[i];
        EXPECT_EQ(batched[i], alone[i]) << "sequence " << i << ", " << threads << " threads";
      }
    }
  }
}

// All that goes on is in the state, the cache and the position: the rest may burn.
TEST_P(MixerContractTest, StateRoundTripsThroughACopy) {
  const auto x = Tokens(1);
  Sequence uninterrupted(*mixer_);
  const auto expected =
      Feed(*mixer_, uninterrupted, x, std::vector<int64_t>{83, kCount}, Form::kRecurrent);
  const std::span<const float> first = std::span(x).subspan(0, 83 * hidden_);
  Sequence begun(*mixer_);
  auto out = Feed(*mixer_, begun, first, 83, Form::kRecurrent);
  std::vector<char> bytes(begun.state.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), begun.state.data(), bytes.size());
  RandomWeights weights(3);
  const auto other =
      MakeMixer(GetParam().mixer, hidden_, GetParam().config, weights, GetParam().layer);
  Sequence resumed(*other);
  if (!bytes.empty()) std::memcpy(resumed.state.data(), bytes.data(), bytes.size());
  resumed.cache = begun.cache;
  resumed.position = begun.position;
  const auto rest =
      Feed(*other, resumed, std::span(x).subspan(83 * hidden_), kCount - 83, Form::kRecurrent);
  out.insert(out.end(), rest.begin(), rest.end());
  EXPECT_EQ(out, expected);
  EXPECT_EQ(resumed, uninterrupted);
}

TEST_P(MixerContractTest, AForkIsIndependent) {
  const auto x = Tokens(1), other = Tokens(2);
  Sequence sequence(*mixer_);
  Feed(*mixer_, sequence, x, kCount, Form::kRecurrent);
  Sequence fork = sequence;
  Sequence control = sequence;
  const auto expected = Feed(*mixer_, control, x, kCount, Form::kRecurrent);
  const auto forked = Feed(*mixer_, fork, other, kCount, Form::kRecurrent);
  EXPECT_NE(forked, expected);
  EXPECT_EQ(Feed(*mixer_, sequence, x, kCount, Form::kRecurrent), expected);
  EXPECT_EQ(sequence, control);
}

TEST_P(MixerContractTest, TheCacheGrowsByWhatIsSaid) {
  Sequence sequence(*mixer_);
  for (const int64_t count : {1, 1, 30, 5}) {
    Feed(*mixer_, sequence, Tokens(1, count), count, Form::kRecurrent);
    EXPECT_EQ(static_cast<int64_t>(sequence.cache.size()),
              mixer_->cache_floats_per_position() * sequence.position);
  }
  EXPECT_THAT(mixer_->cache_floats_per_position(),
              testing::AnyOf(0, mixer_->kv_equivalent_floats_per_position()));
}

TEST_P(MixerContractTest, AMissingTensorIsAnErrorThatNamesIt) {
  RandomWeights source(3);
  RandomWeights stored(3);  // With the shapes that it has, and no others.
  for (const auto& [name, shape] : weights_.asked()) {
    const auto tensor = source.Read(name, shape);
    stored.Set(name, {tensor->begin(), tensor->end()});
  }
  for (const auto& [name, shape] : weights_.asked()) {
    if (name.ends_with(".omega")) continue;  // Drawn where it is not stored.
    RandomWeights weights = stored;
    weights.Remove(name);
    // Either name will do.
    if (name == "m.g_norm_swish_gate.weight") weights.Remove("m.g_norm.weight");
    const auto mixer =
        TryMixer(GetParam().mixer, hidden_, GetParam().config, weights, GetParam().layer);
    EXPECT_FALSE(mixer.ok()) << name;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(name));
  }
}

INSTANTIATE_TEST_SUITE_P(Mixers, MixerContractTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace fermata
