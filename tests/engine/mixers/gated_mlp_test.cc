#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/mixers/testing.h"

namespace fermata {
namespace {

constexpr int64_t kHidden = 21, kInner = 37, kRows = 5;

std::vector<float> Output(const Mixer& mixer, const std::vector<float>& x) {
  Sequence sequence(mixer);
  return Feed(mixer, sequence, x, static_cast<int64_t>(x.size()) / kHidden, Form::kRecurrent);
}

TEST(GatedMlpTest, MatchesTheFormula) {
  RandomWeights weights(1);
  const auto x = RandomNormals(2, kRows * kHidden);
  const Doubles input(x.begin(), x.end());
  Doubles inner = ReferenceLinear(weights, "gate_proj.weight", input, kHidden, kInner);
  const Doubles up = ReferenceLinear(weights, "up_proj.weight", input, kHidden, kInner);
  for (size_t i = 0; i < inner.size(); ++i) inner[i] = ReferenceSilu(inner[i]) * up[i];
  const Doubles expected = ReferenceLinear(weights, "down_proj.weight", inner, kInner, kHidden);
  for (const char* act : {"swish", "silu"}) {
    const auto mixer = MakeMixer("gated_mlp", kHidden,
                                 {{"intermediate_size", kInner}, {"hidden_act", act}}, weights);
    EXPECT_LE(Difference(Output(*mixer, x), expected), 1e-5);
  }
}

TEST(GatedMlpTest, TheOlderLayoutHasTheUpRowsBelowTheGates) {
  RandomWeights weights(1);
  const nlohmann::json config = {{"intermediate_size", kInner}};
  const auto x = RandomNormals(2, kRows * kHidden);
  const auto expected = Output(*MakeMixer("gated_mlp", kHidden, config, weights), x);
  const auto gate = weights.Read("m.gate_proj.weight", std::vector<int64_t>{kInner, kHidden});
  const auto up = weights.Read("m.up_proj.weight", std::vector<int64_t>{kInner, kHidden});
  std::vector<float> both(gate->begin(), gate->end());
  both.insert(both.end(), up->begin(), up->end());
  weights.Set("m.gate_proj.weight", both);
  weights.Remove("m.up_proj.weight");
  EXPECT_EQ(Output(*MakeMixer("gated_mlp", kHidden, config, weights), x), expected);
}

TEST(GatedMlpTest, TheWidthFollowsFromTheRatio) {
  struct {
    int64_t hidden;
    nlohmann::json config;
    int64_t inner;
  } const cases[] = {
      {300, nlohmann::json::object(), 1024},  // ⌊300 · 4 · 2/3⌋ = 800.
      {384, {{"hidden_ratio", 4}}, 1024},     // Exactly 1024.
      {96, {{"hidden_ratio", 1}}, 256},       // 64.
      {300, {{"intermediate_size", 7}, {"hidden_ratio", 4}}, 7},
  };
  for (const auto& each : cases) {
    RandomWeights weights(1);
    MakeMixer("gated_mlp", each.hidden, each.config, weights);
    EXPECT_EQ(weights.asked().at("m.up_proj.weight"),
              std::vector<int64_t>({each.inner, each.hidden}));
  }
}

TEST(GatedMlpTest, AnUnknownActivationIsRefusedByName) {
  RandomWeights weights(1);
  const auto mixer = TryMixer("gated_mlp", kHidden, {{"hidden_act", "gelu"}}, weights);
  EXPECT_EQ(mixer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mixer.status().message()),
              testing::AllOf(testing::HasSubstr("hidden_act"), testing::HasSubstr("gelu")));
}

}  // namespace
}  // namespace fermata
