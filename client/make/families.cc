#include "client/make/families.h"

#include <algorithm>
#include <string>

namespace fermata::make {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWorldVocab = 65536;  // Of RWKV's World models.
constexpr int64_t kByteLevelVocab = 256;

int64_t Heads(int64_t width, int64_t head_dim) { return std::max<int64_t>(width / head_dim, 1); }

// What flash-linear-attention's models share beside RWKV's.
void AddFla(Json& config) {
  config["norm_eps"] = 1e-6;
  config["hidden_act"] = "swish";
  config["hidden_ratio"] = 4;
}

void AddConvolution(Json& config) {
  config["use_short_conv"] = true;
  config["conv_size"] = 4;
}

void AddRwkvNorms(Json& config) {
  config["norm_eps"] = 1e-5;
  config["norm_bias"] = true;
  config["norm_first"] = true;
}

// The ranks of RWKV-7's low-rank parts, which are no function of the width in what is published.
struct Rwkv7Ranks {
  int64_t hidden_size;
  int64_t decay, a, v, gate;
};
constexpr Rwkv7Ranks kRwkv7Ranks[] = {
    {768, 64, 64, 32, 128}, {1024, 64, 64, 32, 128}, {2048, 96, 96, 64, 256}};

void AddRwkv7(int64_t hidden, Json& config) {
  AddRwkvNorms(config);
  const auto* ranks = std::ranges::find(kRwkv7Ranks, hidden, &Rwkv7Ranks::hidden_size);
  if (ranks != std::end(kRwkv7Ranks)) {
    config["decay_low_rank_dim"] = ranks->decay;
    config["a_low_rank_dim"] = ranks->a;
    config["v_low_rank_dim"] = ranks->v;
    config["gate_low_rank_dim"] = ranks->gate;
  }
  config["head_dim"] = std::min<int64_t>(hidden, 64);
  config["hidden_ratio"] = 4;
}

void AddRwkv6(int64_t hidden, Json& config) {
  AddRwkvNorms(config);
  config["num_heads"] = Heads(hidden, 64);
  config["expand_k"] = 1;
  config["expand_v"] = 1;
  config["proj_low_rank_dim"] = 32;
  config["gate_low_rank_dim"] = 64;
  config["hidden_ratio"] = 3.5;
}

void AddRetNet(int64_t hidden, Json& config) {
  AddFla(config);
  config["hidden_ratio"] = 2;
  config["num_heads"] = Heads(hidden, 256);
  config["expand_k"] = 1;
  config["expand_v"] = 2;
}

void AddGla(int64_t /*hidden*/, Json& config) {
  AddFla(config);
  config["num_heads"] = 4;
  config["expand_k"] = 0.5;
  config["expand_v"] = 1;
}

// Of Katharopoulos et al., "Transformers are RNNs": ELU + 1 and the normaliser, heads of 64.
void AddLinearAttention(int64_t hidden, Json& config) {
  AddFla(config);
  config["num_heads"] = Heads(hidden, 64);
  config["expand_k"] = 1;
  config["expand_v"] = 1;
  config["feature_map"] = "elu";
  config["norm_feature_map"] = true;
}

void AddTransformer(int64_t hidden, Json& config) {
  AddFla(config);
  config["num_heads"] = Heads(hidden, 64);
  config["rope_theta"] = 10000;
}

void AddDeltaNet(int64_t hidden, Json& config) {
  AddFla(config);
  AddConvolution(config);
  config["num_heads"] = Heads(hidden, 128);
  config["qk_norm"] = "l2";
  config["qk_activation"] = "silu";
  config["use_beta"] = true;
}

// Keys take three quarters of the hidden size.
void AddGatedDeltaNet(int64_t hidden, Json& config) {
  AddFla(config);
  AddConvolution(config);
  const int64_t head_dim = std::clamp<int64_t>(hidden * 3 / 4, 1, 256);
  config["head_dim"] = head_dim;
  config["num_heads"] = Heads(hidden * 3 / 4, head_dim);
  config["expand_v"] = 2;
  config["use_gate"] = true;
}

void AddMamba2(int64_t hidden, Json& config) {
  const int64_t head_dim = std::min<int64_t>(2 * hidden, 64);
  config["expand"] = 2;
  config["head_dim"] = head_dim;
  config["num_heads"] = Heads(2 * hidden, head_dim);
  config["state_size"] = 128;
  config["n_groups"] = 1;
  config["conv_kernel"] = 4;
  config["use_bias"] = false;
  config["use_conv_bias"] = true;
  config["rms_norm"] = true;
  config["hidden_act"] = "silu";
  config["layer_norm_epsilon"] = 1e-5;
}

constexpr Family kFamilies[] = {
    {"rwkv7", "RWKV7ForCausalLM", 1, AddRwkv7},
    {"rwkv6", "RWKV6ForCausalLM", 1, AddRwkv6},
    {"retnet", "RetNetForCausalLM", 1, AddRetNet},
    {"gla", "GLAForCausalLM", 1, AddGla},
    {"linear_attn", "LinearAttentionForCausalLM", 1, AddLinearAttention},
    {"transformer", "TransformerForCausalLM", 1, AddTransformer},
    {"delta_net", "DeltaNetForCausalLM", 1, AddDeltaNet},
    {"gated_deltanet", "GatedDeltaNetForCausalLM", 1, AddGatedDeltaNet},
    {"mamba2", "Mamba2ForCausalLM", 2, AddMamba2},
};

// The shapes of RWKV-7's published models. The other families' differ little from them, and are
// compared best at the same ones.
constexpr Preset kPresets[] = {
    {"0.1b", {12, 768, kWorldVocab}},
    {"0.4b", {24, 1024, kWorldVocab}},
    {"1.5b", {24, 2048, kWorldVocab}},
};

}  // namespace

std::span<const Family> Families() { return kFamilies; }
std::span<const Preset> Presets() { return kPresets; }

const Family* FindFamily(std::string_view name) {
  const auto* it = std::ranges::find(kFamilies, name, &Family::name);
  return it == std::end(kFamilies) ? nullptr : it;
}

const Preset* FindPreset(std::string_view name) {
  const auto* it = std::ranges::find(kPresets, name, &Preset::name);
  return it == std::end(kPresets) ? nullptr : it;
}

Json MakeConfig(const Family& family, const Shape& shape) {
  Json config = {{"architectures", {std::string(family.architecture)}},
                 {"model_type", std::string(family.name)},
                 {"vocab_size", shape.vocab_size},
                 {"hidden_size", shape.hidden_size},
                 {"num_hidden_layers", shape.num_layers}};
  family.add_fields(shape.hidden_size, config);
  config["tie_word_embeddings"] = false;
  // Id 0 of a World vocabulary ends a text; a byte that does so there is not.
  if (shape.vocab_size != kByteLevelVocab) {
    config["bos_token_id"] = 0;
    config["eos_token_id"] = 0;
  }
  return config;
}

}  // namespace fermata::make
