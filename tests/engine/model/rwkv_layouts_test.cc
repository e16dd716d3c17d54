// One set of random tensors under all names that RWKV is published with, rearranged as the published
// converters do it: the logits are the same. That they are right for some of the names is what the
// conformance test says.

#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/cases.h"
#include "tests/engine/model/models.h"
#include "tests/engine/model/rwkv_tensors.h"
#include "tests/files.h"
#include "tests/gguf_file.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

// Models from directories.

std::string Safetensors(const Tensors& tensors) {
  std::vector<FileTensor> files;
  for (const auto& [name, tensor] : tensors) {
    files.push_back(F32Tensor(name, tensor.shape, tensor.values));
  }
  return FileBytes(files);
}

struct Directory {
  explicit Directory(const Tensors& tensors, const Json& config = nullptr) {
    dir.Write("model.safetensors", Safetensors(tensors));
    if (config.is_object()) dir.Write("config.json", config.dump());
  }
  explicit Directory(const GgufSpec& spec) { dir.Write("model.gguf", GgufBytes(spec)); }

  TempDir dir;
};

std::vector<float> Logits(const Model& model) {
  EXPECT_THAT(model.info().remarks, testing::IsEmpty());
  EXPECT_EQ(model.info().num_layers, kRwkvLayers);
  SequenceState state = model.NewState();
  return Feed(model, state, RandomTokens(40, kRwkvVocab, 1), Form::kRecurrent).logits;
}

std::vector<float> Logits(const Directory& directory, const Json& fields = Json::object()) {
  if (!fields.empty()) {
    Case c;
    c.directory = directory.dir.path();
    return Logits(*LoadVariant(c, {"", fields}));
  }
  const auto model = Model::Load(directory.dir.path());
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? Logits(**model) : std::vector<float>();
}

void ExpectNear(const std::vector<float>& logits, const std::vector<float>& expected) {
  ASSERT_EQ(logits.size(), expected.size());
  EXPECT_LE(MaxDifference(logits, expected), 1e-5 * MaxAbs(expected));
}

// convert_rwkv_checkpoint_to_hf.py, and its descendants for RWKV-5 and -6.
Tensors ToTransformers(const Tensors& tensors, const std::vector<std::string>& mix) {
  std::vector<std::pair<std::string, std::string>> names = {
      {"emb.", "rwkv.embeddings."}, {"blocks.", "rwkv.blocks."}, {"ln_out.", "rwkv.ln_out."},
      {".ln0.", ".pre_ln."},        {".att.", ".attention."},    {".ffn.", ".feed_forward."}};
  const std::map<std::string, std::string> words = {
      {"r", "receptance"}, {"k", "key"}, {"v", "value"}, {"g", "gate"}};
  for (const std::string& letter : mix) {
    names.emplace_back("time_mix_" + letter, "time_mix_" + words.at(letter));
  }
  return Renamed(tensors, names);
}

Json TransformersConfig(const std::string& model_type) {
  return {{"model_type", model_type},   {"vocab_size", kRwkvVocab},
          {"hidden_size", kRwkvHidden}, {"num_hidden_layers", kRwkvLayers},
          {"head_size", kRwkvHeadDim},  {"intermediate_size", kRwkvInner}};
}

TEST(RwkvLayoutsTest, TransformersRwkv4) {
  const Tensors author = Rwkv4();
  Json config = TransformersConfig("rwkv");
  config.erase("head_size");
  const Directory directory(ToTransformers(author, {"r", "k", "v"}), config);
  EXPECT_EQ(Logits(directory), Logits(Directory(author)));
}

// The stream is halved after blocks 2 and 4 and the weights that write into it are divided, as
// transformers does it at inference: only the norms' epsilons tell.
TEST(RwkvLayoutsTest, TransformersRescales) {
  const Tensors author = Rwkv4();
  Json config = TransformersConfig("rwkv");
  config.erase("head_size");
  config.update({{"rescale_every", 2}, {"layer_norm_epsilon", 0.3}});
  Tensors divided = author;
  for (auto& [name, tensor] : divided) {
    const bool late = name.starts_with("blocks.2.") || name.starts_with("blocks.3.");
    const bool writes = name.ends_with("att.output.weight") || name.ends_with("ffn.value.weight");
    if (late && writes) tensor = Scaled(tensor, 0.5f);
  }
  const Json fields = {{"norm_eps", 0.3}, {"final_norm_eps", 1e-5}, {"halve_every", 2}};
  const auto logits = Logits(Directory(ToTransformers(author, {"r", "k", "v"}), config));
  ExpectNear(logits, Logits(Directory(divided), fields));
  EXPECT_GT(MaxDifference(logits, Logits(Directory(author), {{"norm_eps", 0.3}})), 1e-3);
}

TEST(RwkvLayoutsTest, CommunityRwkv5) {
  const Tensors author = Rwkv5();
  const Json config = TransformersConfig("rwkv5");
  const Tensors tensors = ToTransformers(author, {"r", "k", "v", "g"});
  EXPECT_EQ(Logits(Directory(tensors, config)), Logits(Directory(author)));
  Json other = config;
  other["head_size_divisor"] = 1;
  EXPECT_EQ(Logits(Directory(tensors, other)), Logits(Directory(author), {{"g_norm_eps", 1e-5}}));
}

TEST(RwkvLayoutsTest, CommunityRwkv6) {
  const Tensors author = Rwkv6();
  EXPECT_EQ(Logits(Directory(ToTransformers(author, {}), TransformersConfig("rwkv6"))),
            Logits(Directory(author)));
}

// RWKV-5 has had its decay in several shapes; a bonus called time_first is a logarithm.
TEST(RwkvLayoutsTest, Rwkv5InItsSeveralShapes) {
  const Tensors author = Rwkv5();
  const auto expected = Logits(Directory(author));
  Tensors deep = author, logarithm = author;
  for (int64_t layer = 0; layer < kRwkvLayers; ++layer) {
    const std::string att = "blocks." + std::to_string(layer) + ".att.";
    for (const char* name : {"time_decay", "time_faaaa"}) {
      TestTensor& tensor = deep[att + name];
      tensor = Reshaped(tensor, {kRwkvHeads, kRwkvHeadDim, 1});
    }
    logarithm.erase(att + "time_faaaa");
    TestTensor& first = logarithm[att + "time_first"] = author.at(att + "time_faaaa");
    for (float& value : first.values) value = std::log(std::abs(value));
  }
  EXPECT_EQ(Logits(Directory(deep)), expected);
  Tensors positive = author;
  for (auto& [name, tensor] : positive) {
    if (!name.ends_with("time_faaaa")) continue;
    for (float& value : tensor.values) value = std::abs(value);
  }
  ExpectNear(Logits(Directory(logarithm)), Logits(Directory(positive)));
}

// utils/convert_from_rwkv6.py of flash-linear-attention.
Tensors ToFla6(const Tensors& author) {
  const std::vector<int> order = {3, 0, 1, 2, 4};  // r, w, k, v, g of w, k, v, r, g.
  Tensors tensors = author;
  for (int64_t layer = 0; layer < kRwkvLayers; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".", att = block + "att.";
    const auto take = [&](const std::string& name) {
      return std::move(tensors.extract(name).mapped());
    };
    tensors[att + "x_bias"] =
        Stacked(author, att + "time_maa_", {"r", "w", "k", "v", "g"}, {5, kRwkvHidden});
    for (const char* letter : {"r", "w", "k", "v", "g"}) tensors.erase(att + "time_maa_" + letter);
    tensors[att + "x_proj.0.mu"] = Reshaped(take(att + "time_maa_x"), {kRwkvHidden});
    tensors[att + "x_proj.0.linear.weight"] =
        Reordered(Transposed(take(att + "time_maa_w1")), order);
    tensors[att + "x_proj.2.weight"] = Transposed(
        Reshaped(Reordered(take(att + "time_maa_w2"), order), {5 * kRwkvRank, kRwkvHidden}));
    tensors[att + "w_proj.linear.lora.0.weight"] = Transposed(take(att + "time_decay_w1"));
    tensors[att + "w_proj.linear.lora.2.weight"] = Transposed(take(att + "time_decay_w2"));
    tensors[att + "w_proj.linear.lora.2.bias"] = Reshaped(take(att + "time_decay"), {kRwkvHidden});
    tensors[att + "bonus"] = take(att + "time_faaaa");
    for (const auto& [mu, module] :
         {std::pair("time_maa_k", "key"), {"time_maa_r", "receptance"}}) {
      const std::string ffn = block + "ffn.";
      tensors[ffn + module + ".mu"] = Reshaped(take(ffn + mu), {kRwkvHidden});
      tensors[ffn + module + ".linear.weight"] = take(ffn + module + ".weight");
    }
  }
  return Renamed(tensors, {{"emb.", "model.embeddings."},
                           {"blocks.", "model.layers."},
                           {"ln_out.", "model.norm."},
                           {"head.", "lm_head."},
                           {".ln0.", ".pre_norm."},
                           {".ln1.", ".attn_norm."},
                           {".ln2.", ".ffn_norm."},
                           {".ln_x.", ".g_norm."},
                           {".att.receptance.", ".att.r_proj.linear."},
                           {".att.key.", ".att.k_proj.linear."},
                           {".att.value.", ".att.v_proj.linear."},
                           {".att.gate.", ".att.g_proj.linear."},
                           {".att.output.", ".att.o_proj."},
                           {".att.", ".attn."}});
}

TEST(RwkvLayoutsTest, FlaRwkv6) {
  const Tensors author = Rwkv6();
  const Json config = {{"model_type", "rwkv6"},
                       {"vocab_size", kRwkvVocab},
                       {"hidden_size", kRwkvHidden},
                       {"num_hidden_layers", kRwkvLayers},
                       {"num_heads", kRwkvHeads},
                       {"expand_k", 1},
                       {"intermediate_size", kRwkvInner},
                       {"proj_low_rank_dim", kRwkvRank},
                       {"gate_low_rank_dim", kRwkvRank + 1}};
  EXPECT_EQ(Logits(Directory(ToFla6(author), config)),
            Logits(Directory(author), {{"g_norm_eps", 1e-5}}));
}

// utils/convert_from_rwkv7.py of flash-linear-attention; `stacked` is how it was before April 2025.
Tensors ToFla7(const Tensors& author, bool stacked) {
  Tensors tensors;
  for (const auto& [name, tensor] : author) {
    if (name.starts_with("blocks.0.att.v") && !name.starts_with("blocks.0.att.value")) continue;
    const size_t dot = name.rfind('.');
    const std::string prefix = name.substr(0, dot + 1), last = name.substr(dot + 1);
    const bool low_rank = last.size() == 2 && std::isdigit(last[1]) != 0;
    if (low_rank && last[1] == '0') {
      tensors[prefix + last[0] + "_lora.lora.2.bias"] = Reshaped(tensor, {kRwkvHidden});
    } else if (low_rank) {
      tensors[prefix + last[0] + "_lora.lora." + (last[1] == '1' ? "0" : "2") + ".weight"] =
          Transposed(tensor);
    } else if (last == "k_k" || last == "k_a" || name.ends_with("ffn.x_k")) {
      tensors[name] = Reshaped(tensor, {kRwkvHidden});
    } else if (!stacked || !last.starts_with("x_")) {
      tensors[name] = tensor;
    }
  }
  for (int64_t layer = 0; stacked && layer < kRwkvLayers; ++layer) {
    const std::string att = "blocks." + std::to_string(layer) + ".att.";
    tensors[att + "x_x"] =
        Stacked(author, att + "x_", {"r", "w", "k", "v", "a", "g"}, {6, kRwkvHidden});
  }
  return Renamed(tensors, {{"emb.", "model.embeddings."},
                           {"blocks.", "model.layers."},
                           {"ln_out.", "model.norm."},
                           {"head.", "lm_head."},
                           {".ln0.", ".pre_norm."},
                           {".ln1.", ".attn_norm."},
                           {".ln2.", ".ffn_norm."},
                           {".ln_x.", ".g_norm."},
                           {".att.receptance.", ".att.r_proj."},
                           {".att.key.", ".att.k_proj."},
                           {".att.value.", ".att.v_proj."},
                           {".att.output.", ".att.o_proj."},
                           {".att.", ".attn."}});
}

TEST(RwkvLayoutsTest, FlaRwkv7) {
  const Tensors author = Rwkv7();
  const Json config = {{"model_type", "rwkv7"},
                       {"vocab_size", kRwkvVocab},
                       {"hidden_size", kRwkvHidden},
                       {"num_hidden_layers", kRwkvLayers},
                       {"head_dim", kRwkvHeadDim},
                       {"intermediate_size", kRwkvInner},
                       {"decay_low_rank_dim", kRwkvRank},
                       {"a_low_rank_dim", kRwkvRank + 1},
                       {"v_low_rank_dim", kRwkvRank + 2},
                       {"gate_low_rank_dim", kRwkvRank + 3},
                       {"fuse_norm", false}};
  const auto expected = Logits(Directory(author), {{"g_norm_eps", 8e-5}});
  EXPECT_EQ(Logits(Directory(ToFla7(author, false), config)), expected);
  EXPECT_EQ(Logits(Directory(ToFla7(author, true), config)), expected);
}

GgufSpec Gguf(const std::string& arch, const Tensors& tensors,
              std::vector<std::pair<std::string, std::string>> keys) {
  GgufSpec spec;
  spec.keys = {{"general.architecture", GgufString(arch)},
               {arch + ".embedding_length", GgufUint32(kRwkvHidden)},
               {arch + ".block_count", GgufUint32(kRwkvLayers)},
               {arch + ".feed_forward_length", GgufUint32(kRwkvInner)},
               {arch + ".wkv.head_size", GgufUint32(kRwkvHeadDim)}};
  spec.keys.insert(spec.keys.end(), keys.begin(), keys.end());
  for (const auto& [name, tensor] : tensors) {
    const FileTensor file = F32Tensor(name, tensor.shape, tensor.values);
    spec.tensors.push_back({.name = name,
                            .type = 0,
                            .dims = {tensor.shape.rbegin(), tensor.shape.rend()},
                            .bytes = file.bytes});
  }
  return spec;
}

const std::vector<std::pair<std::string, std::string>> kGgufNames = {
    {"blocks.0.ln0.", "token_embd_norm."},
    {"emb.", "token_embd."},
    {"blocks.", "blk."},
    {"ln_out.", "output_norm."},
    {"head.", "output."},
    {".ln1.", ".attn_norm."},
    {".ln2.", ".attn_norm_2."},
    {".att.ln_x.", ".time_mix_ln."},
    {".att.", ".time_mix_"},
    {".ffn.", ".channel_mix_"}};

// Rwkv6Model of llama.cpp's converter. `fused` is how it is since the shares are stacked.
Tensors ToGguf6(const Tensors& author, int64_t rescale_every, bool fused) {
  Tensors tensors;
  for (const auto& [name, tensor] : author) {
    const size_t dot = name.rfind('.');
    const std::string prefix = name.substr(0, dot + 1), last = name.substr(dot + 1);
    if (last == "time_maa_w1" || last == "time_maa_w2") {
      tensors[prefix + last.substr(9) + ".weight"] = Transposed(tensor);
    } else if (last == "time_decay_w1" || last == "time_decay_w2") {
      tensors[prefix + last.substr(5) + ".weight"] = Transposed(tensor);
    } else if (last == "time_decay") {
      tensors[prefix + "decay.weight"] = Reshaped(tensor, {kRwkvHidden});
    } else if (last == "time_faaaa") {
      tensors[prefix + "first.weight"] = tensor;
    } else if (last.starts_with("time_maa_")) {
      const bool stacked = fused && name.find(".att.") != std::string::npos && last != "time_maa_x";
      if (!stacked)
        tensors[prefix + "lerp_" + last.back() + ".weight"] = Reshaped(tensor, {kRwkvHidden});
    } else {
      tensors[name] = tensor;
    }
  }
  for (int64_t layer = 0; layer < kRwkvLayers; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".", att = block + "att.";
    if (fused) {
      tensors[att + "lerp_fused.weight"] =
          Stacked(author, att + "time_maa_", {"w", "k", "v", "r", "g"}, {5, 1, 1, kRwkvHidden});
    }
    if (rescale_every == 0) continue;
    const float factor = std::exp2(-static_cast<float>(layer / rescale_every));
    for (const std::string& name : {att + "output.weight", block + "ffn.value.weight"}) {
      tensors[name] = Scaled(tensors[name], factor);
    }
  }
  return Renamed(tensors, kGgufNames);
}

TEST(RwkvLayoutsTest, GgufRwkv6) {
  const Tensors author = Rwkv6();
  const std::vector<std::pair<std::string, std::string>> keys = {
      {"rwkv6.time_mix_extra_dim", GgufUint32(kRwkvRank)},
      {"rwkv6.time_decay_extra_dim", GgufUint32(kRwkvRank + 1)}};
  for (const bool fused : {false, true}) {
    EXPECT_EQ(Logits(Directory(Gguf("rwkv6", ToGguf6(author, 0, fused), keys))),
              Logits(Directory(author)));
  }
  auto rescaled = keys;
  rescaled.emplace_back("rwkv6.rescale_every_n_layers", GgufUint32(2));
  rescaled.emplace_back("rwkv6.attention.layer_norm_epsilon", GgufFloat32(0.25f));
  ExpectNear(Logits(Directory(Gguf("rwkv6", ToGguf6(author, 2, true), rescaled))),
             Logits(Directory(author), {{"norm_eps", 0.25}, {"rescale_every", 2}}));
}

// Rwkv7Model of llama.cpp's converter.
Tensors ToGguf7(const Tensors& author) {
  Tensors tensors;
  for (const auto& [name, tensor] : author) {
    const size_t dot = name.rfind('.');
    const std::string prefix = name.substr(0, dot + 1), last = name.substr(dot + 1);
    const bool low_rank = last.size() == 2 && std::isdigit(last[1]) != 0;
    if (low_rank && last[0] == 'v' && prefix == "blocks.0.att.") continue;
    if (low_rank && last[1] != '0') {
      tensors[name + ".weight"] = Transposed(tensor);
    } else if (last == "weight" || last == "bias") {
      tensors[name] = tensor;
    } else if (name.ends_with("ffn.x_k")) {
      tensors[prefix + "lerp_k.weight"] = Reshaped(tensor, {kRwkvHidden});
    } else if (!last.starts_with("x_")) {
      tensors[name + ".weight"] = Reshaped(tensor, {kRwkvHidden});
    }
  }
  for (int64_t layer = 0; layer < kRwkvLayers; ++layer) {
    const std::string att = "blocks." + std::to_string(layer) + ".att.";
    tensors[att + "lerp_fused.weight"] =
        Stacked(author, att + "x_", {"r", "w", "k", "v", "a", "g"}, {6, 1, 1, kRwkvHidden});
  }
  // Dummies, so that all layers look the same.
  for (const char* number : {"0", "1", "2"}) {
    const std::string att = "blocks.0.att.";
    tensors[att + "v" + number + ".weight"] = tensors.at(att + "a" + number + ".weight");
  }
  return Renamed(tensors, kGgufNames);
}

TEST(RwkvLayoutsTest, GgufRwkv7) {
  const Tensors author = Rwkv7();
  EXPECT_EQ(Logits(Directory(Gguf("rwkv7", ToGguf7(author), {}))), Logits(Directory(author)));
}

TEST(RwkvLayoutsTest, UnknownGgufArchitecturesAreRefusedByName) {
  for (const char* arch : {"rwkv6qwen2", "arwkv7", "llama"}) {
    const Directory directory(Gguf(arch, ToGguf7(Rwkv7()), {}));
    const auto model = Model::Load(directory.dir.path());
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(model.status().message()),
        testing::AllOf(testing::HasSubstr("general.architecture"), testing::HasSubstr(arch)));
  }
}

}  // namespace
}  // namespace fermata
