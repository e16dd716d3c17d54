// What configs say of flash-linear-attention's models and of Mamba-2, and what its older checkpoints
// hold.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/files.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kFlaTypes[] = {"linear_attn", "retnet",         "gla",
                                     "delta_net",   "gated_deltanet", "transformer"};

Json Config(const std::string& model_type, const Json& changes = Json::object()) {
  Json config = {{"model_type", model_type}, {"hidden_size", 24}, {"num_hidden_layers", 2},
                 {"vocab_size", 40},         {"num_heads", 3},    {"head_dim", 8}};
  config.update(changes);
  return config;
}

std::map<std::string, std::vector<int64_t>, std::less<>> Asked(const Json& json) {
  RandomWeights weights(1);
  ConfigReader config(json, "config.json");
  const auto model = Model::Create(config, weights);
  EXPECT_TRUE(model.ok()) << model.status();
  return weights.asked();
}

std::string Error(const Json& json) {
  RandomWeights weights(1);
  ConfigReader config(json, "config.json");
  const auto model = Model::Create(config, weights);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(model.status().message());
}

// Retention's config class has another default than the feed-forward half that it hands a null to.
TEST(FlaConfigTest, TheFeedForwardHalfIsAsWideAsTheFamilyHasIt) {
  const auto inner = [](const std::string& type, const Json& changes) {
    return Asked(Config(type, changes)).at("model.layers.0.mlp.up_proj.weight")[0];
  };
  const Json wide = {{"hidden_size", 384}};
  EXPECT_EQ(inner("retnet", wide), 512);
  EXPECT_EQ(inner("gla", wide), 1024);
  EXPECT_EQ(inner("retnet", {{"hidden_size", 384}, {"hidden_ratio", nullptr}}), 1024);
  EXPECT_EQ(inner("retnet", {{"hidden_size", 384}, {"hidden_ratio", 1}}), 256);
  EXPECT_EQ(inner("retnet", {{"intermediate_size", 37}}), 37);
}

TEST(FlaConfigTest, EveryFamilyMayHaveAttentionLayers) {
  for (const std::string type : kFlaTypes) {
    SCOPED_TRACE(type);
    const Json attn = {{"layers", {1}}, {"num_heads", 4}, {"num_kv_heads", 2}, {"qkv_bias", true}};
    const auto asked = Asked(Config(type, {{"attn", attn}}));
    EXPECT_TRUE(asked.contains("model.layers.1.attn.k_proj.bias"));
    EXPECT_EQ(asked.at("model.layers.1.attn.k_proj.weight"), std::vector<int64_t>({12, 24}));
    EXPECT_FALSE(asked.contains("model.layers.0.attn.k_proj.bias"));
    Json none = attn;
    none["layers"] = Json::array();
    EXPECT_FALSE(Asked(Config(type, {{"attn", none}})).contains("model.layers.1.attn.k_proj.bias"));
    none.erase("layers");
    EXPECT_THAT(Error(Config(type, {{"attn", none}})), HasSubstr("attn: layers: missing"));
  }
}

TEST(FlaConfigTest, WhatIsNotKnownIsRefusedByName) {
  for (const std::string type : kFlaTypes) {
    for (const char* field : {"norm_first", "share_conv_kernel"}) {
      EXPECT_THAT(Error(Config(type, {{field, true}})), HasSubstr(field));
      Asked(Config(type, {{field, false}}));
    }
    EXPECT_THAT(Error(Config(type, {{"attnres_block_size", 4}})), HasSubstr("attnres_block_size"));
    EXPECT_THAT(Error(Config(type, {{"hidden_act", "gelu"}})), HasSubstr("hidden_act"));
    Asked(Config(type, {{"attnres_block_size", nullptr}}));
  }
}

// flash-linear-attention's configs are told from transformers' by the name of the epsilon.
TEST(FlaConfigTest, Mamba2HasTheDefaultsOfItsLibrary) {
  const auto groups = [](const Json& epsilon) {
    Json config = {{"model_type", "mamba2"}, {"hidden_size", 32}, {"num_hidden_layers", 1},
                   {"vocab_size", 40},       {"head_dim", 8},     {"state_size", 5}};
    config.update(epsilon);
    const int64_t width = Asked(config).at("backbone.layers.0.mixer.conv1d.weight")[0] - 2 * 32;
    return width / (2 * 5);
  };
  EXPECT_EQ(groups({{"layer_norm_epsilon", 1e-5}}), 8);
  EXPECT_EQ(groups({{"norm_eps", 1e-5}}), 1);
}

TEST(FlaConfigTest, AnUnusedTensorOfOlderCheckpointsIsNoNews) {
  const Json config = Config("gated_deltanet");
  const auto remarks = [&](const std::string& unused) {
    std::vector<FileTensor> tensors = RandomTensors(config);
    tensors.push_back(F32Tensor(unused, {3}, {1, 2, 3}));
    const TempDir dir;
    dir.Write("config.json", config.dump());
    dir.Write("model.safetensors", FileBytes(tensors));
    const auto model = Model::Load(dir.path());
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? (*model)->info().remarks : std::vector<std::string>();
  };
  EXPECT_THAT(remarks("model.layers.1.attn.D"), testing::IsEmpty());
  EXPECT_THAT(remarks("model.layers.1.attn.E"), testing::SizeIs(1));
}

}  // namespace
}  // namespace fermata
