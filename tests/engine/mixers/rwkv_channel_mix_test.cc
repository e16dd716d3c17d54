#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/rwkv_reference.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHidden = 21, kInner = 37, kCount = 20;

double SquaredRelu(double x) { return std::max(x, 0.0) * std::max(x, 0.0); }

Doubles Expected(RandomWeights& weights, const Doubles& x, bool receptance, double (*act)(double)) {
  Doubles inner = ReferenceMixedLinear(weights, "x_k", "key", x, kHidden, kInner);
  for (double& each : inner) each = act(each);
  Doubles out = ReferenceLinear(weights, "value.weight", inner, kInner, kHidden);
  if (!receptance) return out;
  const Doubles r = ReferenceMixedLinear(weights, "x_r", "receptance", x, kHidden, kHidden);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= ReferenceSigmoid(r[i]);
  return out;
}

TEST(RwkvChannelMixTest, MatchesTheFormula) {
  const auto x = RandomNormals(2, kCount * kHidden);
  for (const char* name : {"rwkv_channel_mix", "rwkv7_channel_mix"}) {
    using Named = std::pair<std::string, double (*)(double)>;
    for (const auto& [word, act] : {Named("sqrelu", SquaredRelu), Named("silu", ReferenceSilu)}) {
      RandomWeights weights(1);
      const auto mixer =
          MakeMixer(name, kHidden, {{"intermediate_size", kInner}, {"hidden_act", word}}, weights);
      Sequence sequence(*mixer);
      const std::vector<int64_t> cuts = {1, 2, 9, kCount};
      const bool receptance = std::string(name) == "rwkv_channel_mix";
      EXPECT_LE(Difference(Feed(*mixer, sequence, x, cuts, Form::kRecurrent),
                           Expected(weights, {x.begin(), x.end()}, receptance, act)),
                1e-5)
          << name << ", " << word;
      EXPECT_EQ(mixer->kv_equivalent_floats_per_position(), 0);
    }
  }
}

TEST(RwkvChannelMixTest, TheWidthFollowsFromTheRatio) {
  struct {
    std::string mixer;
    int64_t hidden;
    Json config;
    int64_t inner;
  } const cases[] = {
      {"rwkv_channel_mix", 64, Json::object(), 224},            // 3.5 · 64
      {"rwkv_channel_mix", 90, Json::object(), 320},            // 315
      {"rwkv_channel_mix", 90, {{"hidden_ratio", 2.01}}, 192},  // 180
      {"rwkv7_channel_mix", 64, Json::object(), 256},
      {"rwkv7_channel_mix", 65, {{"hidden_ratio", nullptr}}, 288},  // 260
      {"rwkv7_channel_mix", 65, {{"intermediate_size", 7}}, 7},
  };
  for (const auto& each : cases) {
    RandomWeights weights(1);
    MakeMixer(each.mixer, each.hidden, each.config, weights);
    EXPECT_EQ(weights.asked().at("m.key.weight"), std::vector<int64_t>({each.inner, each.hidden}));
  }
}

TEST(RwkvChannelMixTest, WrongFieldsAreRefusedByName) {
  for (const auto& [field, value] : {std::pair<std::string, Json>("hidden_act", "maxout"),
                                     {"intermediate_size", 0},
                                     {"hidden_ratio", -3.5}}) {
    RandomWeights weights(1);
    const auto mixer = TryMixer("rwkv_channel_mix", kHidden, {{field, value}}, weights);
    EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(mixer.status().message()), testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace fermata
