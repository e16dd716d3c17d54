#include "engine/model/self_check.h"

#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

TEST(SelfCheckTest, FormsOfEveryKindOfModelAgree) {
  for (const NamedConfig& each : AllConfigs()) {
    SCOPED_TRACE(each.name);
    const auto model = RandomModel(each.config);
    const auto differences = CompareForms(*model, 100, 1);
    ASSERT_EQ(differences.size(), 3u);
    for (const FormDifference& difference : differences) {
      EXPECT_LT(difference.largest, 1e-4) << FormName(difference.form);
    }
    EXPECT_EQ(differences[0].largest, 0) << "the recurrent form's bits do not depend on pieces";
  }
}

// Keys of 1e20 overflow the state: no form agrees with anything then.
TEST(SelfCheckTest, WhatIsNotFiniteIsNotEqual) {
  nlohmann::json config = LinearConfigs().front().config;
  RandomWeights weights(1);
  const int64_t hidden = config.at("hidden_size").get<int64_t>();
  weights.Set("model.layers.0.attn.k_proj.weight", std::vector<float>(hidden * hidden, 1e30f));
  weights.Set("model.layers.0.attn.v_proj.weight", std::vector<float>(hidden * hidden, 1e30f));
  ConfigReader reader(config, "config.json");
  const auto model = Model::Create(reader, weights).value();
  for (const FormDifference& difference : CompareForms(*model, 20, 1)) {
    EXPECT_FALSE(difference.largest < 1e-3) << FormName(difference.form);
  }
}

}  // namespace
}  // namespace fermata
