// What configs, metadata and shapes say of models of RWKV.

#include <string>
#include <utility>
#include <vector>

#include "engine/model/architecture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/engine/model/rwkv_tensors.h"
#include "tests/files.h"
#include "tests/gguf_file.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json Config(const std::string& model_type, const Json& changes = Json::object()) {
  Json config = {
      {"model_type", model_type}, {"hidden_size", 24}, {"num_hidden_layers", 4}, {"vocab_size", 40},
      {"intermediate_size", 37},  {"num_heads", 3},    {"head_dim", 8},          {"expand_k", 1}};
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
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

TEST(RwkvConfigTest, NormsAreThereAsTheFieldsSay) {
  for (const char* type : {"rwkv", "rwkv4", "rwkv5", "rwkv6", "rwkv7"}) {
    const auto all = Asked(Config(type));
    EXPECT_TRUE(all.contains("model.layers.0.pre_norm.bias")) << type;
    EXPECT_FALSE(all.contains("model.layers.1.pre_norm.bias")) << type;
    const auto none = Asked(Config(type, {{"norm_first", false}, {"norm_bias", false}}));
    EXPECT_FALSE(none.contains("model.layers.0.pre_norm.weight")) << type;
    for (const char* norm : {"model.norm", "model.layers.3.attn_norm", "model.layers.3.ffn_norm"}) {
      EXPECT_TRUE(none.contains(std::string(norm) + ".weight")) << type;
      EXPECT_FALSE(none.contains(std::string(norm) + ".bias")) << type;
    }
  }
}

TEST(RwkvConfigTest, EpsilonsQuadrupleWhereTransformersHalves) {
  ConfigReader config(
      Config("rwkv", {{"rescale_every", 2}, {"norm_eps", 0.125}, {"final_norm_eps", 0.0625}}),
      "config.json");
  const auto plan = PlanModel(config);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const float expected[] = {0.125, 0.125, 0.5, 0.5};
  for (int64_t layer = 0; layer < 4; ++layer) {
    for (const SublayerPlan& sublayer : plan->blocks[layer].sublayers) {
      EXPECT_EQ(sublayer.norm.options.eps, expected[layer]) << layer;
    }
    EXPECT_EQ(plan->blocks[layer].scale, 1);
  }
  EXPECT_EQ(plan->embedding_norm->options.eps, 0.125f);
  EXPECT_EQ(plan->norm.options.eps, 1.0f);
}

TEST(RwkvConfigTest, LayersMayBeSoftmaxAttention) {
  const Json attn = {{"layers", {1, 3}}, {"num_heads", 2}, {"window_size", 9}};
  for (const char* type : {"rwkv6", "rwkv7"}) {
    const auto model = RandomModel(Config(type, {{"attn", attn}}));
    EXPECT_TRUE(model->info().fixed_size_state);
    SequenceState one_by_one = model->NewState(), whole = model->NewState();
    const auto tokens = RandomTokens(30, 40, 1);
    std::vector<int64_t> single;
    for (int64_t i = 0; i <= 30; ++i) single.push_back(i);
    const auto expected = Feed(*model, one_by_one, tokens, single, Form::kRecurrent);
    EXPECT_EQ(Feed(*model, whole, tokens, Form::kRecurrent).logits, expected.logits) << type;
  }
}

TEST(RwkvConfigTest, TheFirstLayerOfRwkv7IsNotSoftmaxAttention) {
  EXPECT_THAT(Error(Config("rwkv7", {{"attn", {{"layers", {0}}, {"num_heads", 2}}}})),
              HasSubstr("config.json: attn: layers: "));
}

TEST(RwkvConfigTest, WrongFieldsAreRefusedByName) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, Json>>{{"hidden_size", -24},
                                                 {"num_hidden_layers", 0},
                                                 {"vocab_size", "many"},
                                                 {"norm_eps", -1},
                                                 {"final_norm_eps", "a"},
                                                 {"norm_bias", 1},
                                                 {"norm_first", "no"},
                                                 {"rescale_every", 1.5},
                                                 {"halve_every", -1}}) {
    EXPECT_THAT(Error(Config("rwkv6", {{field, value}})), HasSubstr("config.json: " + field));
  }
}

std::string LoadError(const TempDir& dir) {
  const auto model = Model::Load(dir.path());
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

void Write(const TempDir& dir, const Tensors& tensors, const Json& config = nullptr) {
  std::vector<FileTensor> files;
  for (const auto& [name, tensor] : tensors) {
    files.push_back(F32Tensor(name, tensor.shape, tensor.values));
  }
  dir.Write("model.safetensors", FileBytes(files));
  if (config.is_object()) dir.Write("config.json", config.dump());
}

TEST(RwkvConfigTest, SizesThatAreMissingAreNamedByTheirTensors) {
  for (const auto& [tensors, name] :
       std::vector<std::pair<Tensors, std::string>>{{Rwkv4(), "blocks.0.ffn.key.weight"},
                                                    {Rwkv5(), "blocks.0.att.time_decay"},
                                                    {Rwkv6(), "blocks.0.att.time_maa_w2"},
                                                    {Rwkv7(), "blocks.0.att.g1"},
                                                    {Rwkv7(), "blocks.1.att.v1"},
                                                    {Rwkv6(), "blocks.0.att.time_faaaa"},
                                                    {Rwkv5(), "blocks.3.att.receptance.weight"}}) {
    Tensors incomplete = tensors;
    incomplete.erase(name);
    const TempDir dir;
    Write(dir, incomplete);
    EXPECT_THAT(LoadError(dir), HasSubstr("\"" + name + "\""));
  }
}

// Where no shape says how many heads there are, they are 64 channels wide: here there is one.
TEST(RwkvConfigTest, HeadsOfRwkv5ShowInTheShapes) {
  const auto S = [](const Tensors& tensors) {
    const TempDir dir;
    Write(dir, tensors);
    return Model::Load(dir.path()).value()->state_blocks().front().shape;
  };
  const auto flatten = [](Tensors& tensors, const std::string& suffix, const auto& shape) {
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with(suffix)) tensor = Reshaped(tensor, shape);
    }
  };
  const std::vector<int64_t> three = {kRwkvHeads, kRwkvHeadDim, kRwkvHeadDim};
  Tensors tensors = Rwkv5();
  EXPECT_EQ(S(tensors), three);
  flatten(tensors, "time_decay", std::vector<int64_t>{1, 1, kRwkvHidden});
  EXPECT_EQ(S(tensors), three);
  flatten(tensors, "time_decay", std::vector<int64_t>{kRwkvHidden});
  EXPECT_EQ(S(tensors), three);
  flatten(tensors, "time_faaaa", std::vector<int64_t>{kRwkvHidden});
  EXPECT_EQ(S(tensors), std::vector<int64_t>({1, kRwkvHidden, kRwkvHidden}));
}

TEST(RwkvConfigTest, ATextEndsWithToken0UnlessAConfigSaysOtherwise) {
  for (const auto& [config, end] :
       {std::pair<Json, int32_t>(nullptr, 0), {{{"eos_token_id", 7}}, 7}}) {
    const TempDir dir;
    Write(dir, Rwkv7(), config);
    const auto model = Model::Load(dir.path());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().eos_token_ids, ::testing::ElementsAre(end));
  }
}

TEST(RwkvConfigTest, WrongMetadataIsRefusedByKey) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"rwkv6.wkv.head_size", GgufUint32(5)},
           {"rwkv6.token_shift_count", GgufUint32(1)},
           {"rwkv6.attention.layer_norm_epsilon", GgufFloat32(-1)},
           {"rwkv6.block_count", GgufUint32(0)},
           {"rwkv6.time_mix_extra_dim", GgufString("few")}}) {
    std::vector<std::pair<std::string, std::string>> keys = {
        {"general.architecture", GgufString("rwkv6")},
        {"rwkv6.embedding_length", GgufUint32(kRwkvHidden)},
        {"rwkv6.block_count", GgufUint32(kRwkvLayers)},
        {"rwkv6.feed_forward_length", GgufUint32(kRwkvInner)},
        {"rwkv6.wkv.head_size", GgufUint32(kRwkvHeadDim)},
        {"rwkv6.time_mix_extra_dim", GgufUint32(kRwkvRank)},
        {"rwkv6.time_decay_extra_dim", GgufUint32(kRwkvRank)}};
    std::erase_if(keys, [&](const auto& pair) { return pair.first == key; });
    keys.emplace_back(key, value);
    GgufSpec spec{.keys = keys};
    spec.tensors.push_back({.name = "token_embd.weight",
                            .type = 0,
                            .dims = {kRwkvHidden, 1},
                            .bytes = std::string(kRwkvHidden * sizeof(float), '\0')});
    const TempDir dir;
    dir.Write("model.gguf", GgufBytes(spec));
    EXPECT_THAT(LoadError(dir), HasSubstr("\"" + key + "\""));
  }
}

}  // namespace
}  // namespace fermata
