// Mamba-2 in the ways that its users store it gives the logits of the canonical directory.

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/gguf_file.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

const Json kConfig = {{"model_type", "mamba2"}, {"hidden_size", 20},      {"expand", 2},
                      {"num_heads", 8},         {"head_dim", 5},          {"state_size", 6},
                      {"n_groups", 2},          {"conv_kernel", 3},       {"num_hidden_layers", 2},
                      {"vocab_size", 33},       {"norm_per_group", true}, {"eos_token_id", 7}};

struct Stored {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::map<std::string, Stored> Tensors() {
  RandomWeights weights(5);
  ConfigReader reader(kConfig, "config.json");
  if (!Model::Create(reader, weights).ok()) throw std::runtime_error("no model");
  std::map<std::string, Stored> tensors;
  for (const auto& [name, shape] : std::map(weights.asked())) {
    const auto values = weights.Read(name, shape).value();
    tensors[name] = {shape, {values.begin(), values.end()}};
  }
  return tensors;
}

void Write(const TempDir& dir, const std::map<std::string, Stored>& tensors, const Json& config) {
  std::vector<FileTensor> files;
  for (const auto& [name, tensor] : tensors) {
    files.push_back(F32Tensor(name, tensor.shape, tensor.values));
  }
  dir.Write("model.safetensors", FileBytes(files));
  dir.Write("config.json", config.dump());
}

std::vector<float> Logits(const TempDir& dir) {
  const auto model = Model::Load(dir.path());
  if (!model.ok()) throw std::runtime_error(model.status().ToString());
  EXPECT_THAT((*model)->info().remarks, testing::IsEmpty());
  EXPECT_EQ((*model)->info().eos_token_ids, std::vector<int32_t>{7});
  SequenceState state = (*model)->NewState();
  return Feed(**model, state, RandomTokens(30, 33, 1), Form::kRecurrent).logits;
}

std::vector<float> Canonical(const std::map<std::string, Stored>& tensors) {
  const TempDir dir;
  Write(dir, tensors, kConfig);
  return Logits(dir);
}

// llama.cpp's names, shapes and A = -exp(A_log).
GgufSpec Gguf(const std::map<std::string, Stored>& tensors) {
  const std::pair<std::string, std::string> names[] = {{"backbone.embeddings.", "token_embd."},
                                                       {"backbone.norm_f.", "output_norm."},
                                                       {"lm_head.", "output."},
                                                       {"backbone.layers.", "blk."},
                                                       {".mixer.norm.", ".ssm_norm."},
                                                       {".norm.", ".attn_norm."},
                                                       {".mixer.in_proj.", ".ssm_in."},
                                                       {".mixer.conv1d.", ".ssm_conv1d."},
                                                       {".mixer.dt_bias", ".ssm_dt.bias"},
                                                       {".mixer.A_log", ".ssm_a"},
                                                       {".mixer.D", ".ssm_d"},
                                                       {".mixer.out_proj.", ".ssm_out."}};
  GgufSpec spec;
  spec.keys = {{"general.architecture", GgufString("mamba2")},
               {"mamba2.embedding_length", GgufUint32(20)},
               {"mamba2.block_count", GgufUint32(2)},
               {"mamba2.feed_forward_length", GgufUint32(0)},
               {"mamba2.attention.head_count", GgufUint32(0)},
               {"mamba2.ssm.conv_kernel", GgufUint32(3)},
               {"mamba2.ssm.inner_size", GgufUint32(40)},
               {"mamba2.ssm.state_size", GgufUint32(6)},
               {"mamba2.ssm.time_step_rank", GgufUint32(8)},
               {"mamba2.ssm.group_count", GgufUint32(2)},
               {"mamba2.attention.layer_norm_rms_epsilon", GgufFloat32(1e-5f)},
               {"tokenizer.ggml.eos_token_id", GgufUint32(7)}};
  for (const auto& [canonical, tensor] : tensors) {
    std::string name = canonical;
    for (const auto& [from, to] : names) {
      if (const size_t at = name.find(from); at != std::string::npos) {
        name.replace(at, from.size(), to);
      }
    }
    Stored stored = tensor;
    if (name.ends_with(".ssm_a")) {
      for (float& value : stored.values) value = -std::exp(value);
    }
    if (name.ends_with(".ssm_a") || name.ends_with(".ssm_d")) stored.shape.push_back(1);
    if (name.ends_with(".ssm_conv1d.weight")) std::erase(stored.shape, 1);
    if (name.ends_with(".ssm_norm.weight")) stored.shape = {2, 20};
    spec.tensors.push_back({.name = name,
                            .type = 0,
                            .dims = {stored.shape.rbegin(), stored.shape.rend()},
                            .bytes = F32Tensor(name, stored.shape, stored.values).bytes});
  }
  return spec;
}

TEST(Mamba2LayoutsTest, Gguf) {
  const auto tensors = Tensors();
  const TempDir dir;
  dir.Write("model.gguf", GgufBytes(Gguf(tensors)));
  const std::vector<float> expected = Canonical(tensors);
  // A goes through exp and log.
  EXPECT_LE(MaxDifference(Logits(dir), expected), 1e-5 * MaxAbs(expected));
}

TEST(Mamba2LayoutsTest, AGgufWhoseSizesMakeNoSenseIsRefusedByKey) {
  const std::pair<std::string, uint32_t> changes[] = {{"mamba2.ssm.time_step_rank", 7},
                                                      {"mamba2.ssm.inner_size", 48},
                                                      {"mamba2.block_count", 0},
                                                      {"mamba2.ssm.state_size", 1u << 30}};
  for (const auto& [key, value] : changes) {
    GgufSpec spec = Gguf(Tensors());
    for (auto& [name, bytes] : spec.keys) {
      if (name == key) bytes = GgufUint32(value);
    }
    const TempDir dir;
    dir.Write("model.gguf", GgufBytes(spec));
    EXPECT_THAT(std::string(Model::Load(dir.path()).status().message()), testing::HasSubstr(key));
  }
}

TEST(Mamba2LayoutsTest, StateSpaces) {
  auto tensors = Tensors();
  const std::vector<float> expected = Canonical(tensors);
  auto embeddings = tensors.extract("backbone.embeddings.weight");
  embeddings.key() = "backbone.embedding.weight";
  tensors.insert(std::move(embeddings));
  const TempDir dir;
  Write(dir, tensors,
        {{"d_model", 20},
         {"n_layer", 2},
         {"vocab_size", 31},
         {"pad_vocab_size_multiple", 11},
         {"tie_embeddings", false},
         {"eos_token_id", 7},
         {"ssm_cfg",
          {{"layer", "Mamba2"}, {"headdim", 5}, {"d_state", 6}, {"ngroups", 2}, {"d_conv", 3}}}});
  EXPECT_EQ(Logits(dir), expected);
}

TEST(Mamba2LayoutsTest, StateSpacesNamesWithAnothersConfig) {
  auto tensors = Tensors();
  const std::vector<float> expected = Canonical(tensors);
  auto embeddings = tensors.extract("backbone.embeddings.weight");
  embeddings.key() = "backbone.embedding.weight";
  tensors.insert(std::move(embeddings));
  const TempDir dir;
  Write(dir, tensors, kConfig);
  EXPECT_EQ(Logits(dir), expected);
}

TEST(Mamba2LayoutsTest, WhatStateSpacesCanBuildAndFermataNotIsRefusedByName) {
  const Json good = {{"d_model", 20}, {"n_layer", 2}, {"vocab_size", 33}};
  const std::pair<std::string, Json> cases[] = {
      {"layer", {{"ssm_cfg", Json::object()}}},
      {"D_has_hdim", {{"ssm_cfg", {{"layer", "Mamba2"}, {"D_has_hdim", true}}}}},
      {"d_ssm", {{"ssm_cfg", {{"layer", "Mamba2"}, {"d_ssm", 20}}}}},
      {"d_intermediate", {{"ssm_cfg", {{"layer", "Mamba2"}}}, {"d_intermediate", 40}}},
      {"attn_layer_idx", {{"ssm_cfg", {{"layer", "Mamba2"}}}, {"attn_layer_idx", {1}}}},
      {"rms_norm", {{"ssm_cfg", {{"layer", "Mamba2"}}}, {"rms_norm", false}}},
      {"headdim", {{"ssm_cfg", {{"layer", "Mamba2"}, {"headdim", -1}}}}},
  };
  for (const auto& [field, change] : cases) {
    Json config = good;
    config.update(change);
    const TempDir dir;
    Write(dir, Tensors(), config);
    EXPECT_THAT(std::string(Model::Load(dir.path()).status().message()),
                testing::HasSubstr(field + ": "));
  }
}

}  // namespace
}  // namespace fermata
