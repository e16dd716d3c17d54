// RWKV as transformers and its community publish it: RWKV-4 as transformers' own RwkvForCausalLM
// reads it, RWKV-5 and -6 as github.com/BBuf/RWKV-World-HF-Tokenizer does.

#include <array>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/model/layouts/layouts.h"
#include "engine/model/layouts/rwkv.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
constexpr auto kReshaped = StoredName::How::kReshaped;
constexpr auto kTransposed = StoredName::How::kTransposed;
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr char kAttention[] = "rwkv.blocks.0.attention.";

// All versions.
constexpr StoredName kSkeleton[] = {
    {"model.embeddings.weight", "rwkv.embeddings.weight"},
    {"model.layers.*.pre_norm.weight", "rwkv.blocks.*.pre_ln.weight"},
    {"model.layers.*.pre_norm.bias", "rwkv.blocks.*.pre_ln.bias"},
    {"model.layers.*.attn_norm.weight", "rwkv.blocks.*.ln1.weight"},
    {"model.layers.*.attn_norm.bias", "rwkv.blocks.*.ln1.bias"},
    {"model.layers.*.ffn_norm.weight", "rwkv.blocks.*.ln2.weight"},
    {"model.layers.*.ffn_norm.bias", "rwkv.blocks.*.ln2.bias"},
    {"model.norm.weight", "rwkv.ln_out.weight"},
    {"model.norm.bias", "rwkv.ln_out.bias"},
    {"lm_head.weight", "head.weight"},
    {"model.layers.*.attn.r_proj.weight", "rwkv.blocks.*.attention.receptance.weight"},
    {"model.layers.*.attn.k_proj.weight", "rwkv.blocks.*.attention.key.weight"},
    {"model.layers.*.attn.v_proj.weight", "rwkv.blocks.*.attention.value.weight"},
    {"model.layers.*.attn.o_proj.weight", "rwkv.blocks.*.attention.output.weight"},
    {"model.layers.*.ffn.key.weight", "rwkv.blocks.*.feed_forward.key.weight"},
    {"model.layers.*.ffn.value.weight", "rwkv.blocks.*.feed_forward.value.weight"},
};

// All but RWKV-7.
constexpr StoredName kReceptance[] = {
    {"model.layers.*.ffn.receptance.weight", "rwkv.blocks.*.feed_forward.receptance.weight"},
};

// RWKV-4 and -5.
constexpr StoredName kTimeMix[] = {
    Converted("model.layers.*.attn.x_r", "rwkv.blocks.*.attention.time_mix_receptance", OneMinus),
    Converted("model.layers.*.attn.x_k", "rwkv.blocks.*.attention.time_mix_key", OneMinus),
    Converted("model.layers.*.attn.x_v", "rwkv.blocks.*.attention.time_mix_value", OneMinus),
    Converted("model.layers.*.ffn.x_r", "rwkv.blocks.*.feed_forward.time_mix_receptance", OneMinus),
    Converted("model.layers.*.ffn.x_k", "rwkv.blocks.*.feed_forward.time_mix_key", OneMinus),
};

constexpr StoredName kRwkv4[] = {
    {"model.layers.*.attn.time_decay", "rwkv.blocks.*.attention.time_decay", kReshaped},
    {"model.layers.*.attn.time_first", "rwkv.blocks.*.attention.time_first", kReshaped},
};

// RWKV-5 and -6.
constexpr StoredName kGateAndNorm[] = {
    {"model.layers.*.attn.g_proj.weight", "rwkv.blocks.*.attention.gate.weight"},
    {"model.layers.*.attn.g_norm.weight", "rwkv.blocks.*.attention.ln_x.weight"},
    {"model.layers.*.attn.g_norm.bias", "rwkv.blocks.*.attention.ln_x.bias"},
    {"model.layers.*.attn.bonus", "rwkv.blocks.*.attention.time_faaaa", kReshaped},
};

constexpr StoredName kRwkv5[] = {
    Converted("model.layers.*.attn.x_g", "rwkv.blocks.*.attention.time_mix_gate", OneMinus),
    {"model.layers.*.attn.time_decay", "rwkv.blocks.*.attention.time_decay", kReshaped},
    Converted("model.layers.*.attn.bonus", "rwkv.blocks.*.attention.time_first", ExpOf),
};

// The stacks are in the order w, k, v, r, g.
constexpr StoredName kRwkv6[] = {
    {"model.layers.*.attn.x_x", "rwkv.blocks.*.attention.time_maa_x", kReshaped},
    {"model.layers.*.attn.x_w", "rwkv.blocks.*.attention.time_maa_w", kReshaped},
    {"model.layers.*.attn.x_k", "rwkv.blocks.*.attention.time_maa_k", kReshaped},
    {"model.layers.*.attn.x_v", "rwkv.blocks.*.attention.time_maa_v", kReshaped},
    {"model.layers.*.attn.x_r", "rwkv.blocks.*.attention.time_maa_r", kReshaped},
    {"model.layers.*.attn.x_g", "rwkv.blocks.*.attention.time_maa_g", kReshaped},
    {"model.layers.*.attn.x_w_lora.lora.0.weight", "rwkv.blocks.*.attention.time_maa_w1",
     kTransposed, 0, 5, true},
    {"model.layers.*.attn.x_k_lora.lora.0.weight", "rwkv.blocks.*.attention.time_maa_w1",
     kTransposed, 1, 5, true},
    {"model.layers.*.attn.x_v_lora.lora.0.weight", "rwkv.blocks.*.attention.time_maa_w1",
     kTransposed, 2, 5, true},
    {"model.layers.*.attn.x_r_lora.lora.0.weight", "rwkv.blocks.*.attention.time_maa_w1",
     kTransposed, 3, 5, true},
    {"model.layers.*.attn.x_g_lora.lora.0.weight", "rwkv.blocks.*.attention.time_maa_w1",
     kTransposed, 4, 5, true},
    {"model.layers.*.attn.x_w_lora.lora.2.weight", "rwkv.blocks.*.attention.time_maa_w2",
     kTransposed, 0, 5},
    {"model.layers.*.attn.x_k_lora.lora.2.weight", "rwkv.blocks.*.attention.time_maa_w2",
     kTransposed, 1, 5},
    {"model.layers.*.attn.x_v_lora.lora.2.weight", "rwkv.blocks.*.attention.time_maa_w2",
     kTransposed, 2, 5},
    {"model.layers.*.attn.x_r_lora.lora.2.weight", "rwkv.blocks.*.attention.time_maa_w2",
     kTransposed, 3, 5},
    {"model.layers.*.attn.x_g_lora.lora.2.weight", "rwkv.blocks.*.attention.time_maa_w2",
     kTransposed, 4, 5},
    {"model.layers.*.attn.w_lora.lora.0.weight", "rwkv.blocks.*.attention.time_decay_w1",
     kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.weight", "rwkv.blocks.*.attention.time_decay_w2",
     kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.bias", "rwkv.blocks.*.attention.time_decay", kReshaped},
    {"model.layers.*.ffn.x_k", "rwkv.blocks.*.feed_forward.time_maa_k", kReshaped},
    {"model.layers.*.ffn.x_r", "rwkv.blocks.*.feed_forward.time_maa_r", kReshaped},
};

constexpr auto kNames4 = JoinNames(kSkeleton, kReceptance, kTimeMix, kRwkv4);
constexpr auto kNames5 = JoinNames(kSkeleton, kReceptance, kTimeMix, kGateAndNorm, kRwkv5);
constexpr auto kNames6 = JoinNames(kSkeleton, kReceptance, kGateAndNorm, kRwkv6);

bool HasAttention(const Checkpoint& checkpoint, const ConfigReader* config,
                  const std::string& name) {
  return config != nullptr && checkpoint.Has(kAttention + name);
}

bool Is6(const Checkpoint& checkpoint, const ConfigReader* config) {
  return HasAttention(checkpoint, config, "time_maa_x");
}
bool Is5(const Checkpoint& checkpoint, const ConfigReader* config) {
  return HasAttention(checkpoint, config, "ln_x.weight") &&
         HasAttention(checkpoint, config, "time_mix_key");
}
bool Is4(const Checkpoint& checkpoint, const ConfigReader* config) {
  return HasAttention(checkpoint, config, "time_first") &&
         !HasAttention(checkpoint, config, "ln_x.weight");
}

// What a version's config class has for fields that are not there.
struct Defaults {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
};
constexpr Defaults kDefaults4 = {50277, 4096, 32};
constexpr Defaults kDefaults5 = {65536, 768, 24};

struct Sizes {
  int64_t hidden = 0;
  int64_t attention = 0;  // Channels of r, k and v.
};

// The fields of all versions. Their last norm has its module's epsilon, whatever the config says.
absl::StatusOr<Json> CommonFields(ConfigReader& config, const Defaults& defaults, Sizes& sizes) {
  Json made = {{"final_norm_eps", 1e-5}, {"bos_token_id", 0}, {"eos_token_id", 0}};
  FERMATA_ASSIGN_OR_RETURN(made["model_type"], config.String("model_type"));
  FERMATA_ASSIGN_OR_RETURN(made["vocab_size"],
                           config.Int("vocab_size", 1, kMaxSize, defaults.vocab_size));
  FERMATA_ASSIGN_OR_RETURN(sizes.hidden,
                           config.Int("hidden_size", 1, kMaxSize, defaults.hidden_size));
  FERMATA_ASSIGN_OR_RETURN(sizes.attention,
                           config.Int("attention_hidden_size", 1, kMaxSize, sizes.hidden));
  made["hidden_size"] = sizes.hidden;
  FERMATA_ASSIGN_OR_RETURN(made["num_hidden_layers"], config.Int("num_hidden_layers", 1, kMaxSize,
                                                                 defaults.num_hidden_layers));
  FERMATA_ASSIGN_OR_RETURN(made["norm_eps"], config.Number("layer_norm_epsilon", 0, 1, 1e-5));
  if (config.Has("tie_word_embeddings")) {
    FERMATA_ASSIGN_OR_RETURN(made["tie_word_embeddings"], config.Bool("tie_word_embeddings"));
  }
  FERMATA_RETURN_IF_ERROR(PassTokensOn(config, made));
  config.Ignore({"architectures", "auto_map", "context_length", "dtype", "max_context_length",
                 "max_position_embeddings", "torch_dtype", "transformers_version", "use_cache",
                 "_name_or_path", "pad_token_id"});
  return made;
}

// The fields of BBuf's models. They rescale the residual stream where the weights are of 16 bits and
// computed with so; here, as in their own float32, nothing is.
absl::StatusOr<Json> HeadFields(ConfigReader& config, Sizes& sizes) {
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(config, kDefaults5, sizes));
  FERMATA_ASSIGN_OR_RETURN(const int64_t head_size, config.Int("head_size", 1, kMaxSize, 64));
  if (sizes.attention % head_size != 0) {
    return config.Error("head_size", std::to_string(head_size) + " does not divide " +
                                         std::to_string(sizes.attention) + " channels");
  }
  made["num_heads"] = sizes.attention / head_size;
  FERMATA_ASSIGN_OR_RETURN(const double divisor,
                           config.Number("head_size_divisor", 1e-3, 1e3, 8.0));
  made["g_norm_eps"] = 1e-5 * divisor * divisor;
  FERMATA_ASSIGN_OR_RETURN(made["intermediate_size"], config.Int("intermediate_size", 1, kMaxSize,
                                                                 sizes.hidden * 7 / 2 / 32 * 32));
  config.Ignore({"num_attention_heads", "model_version", "rescale_every"});
  return made;
}

absl::StatusOr<ConfigReader> MakeConfig4(const Checkpoint&, ConfigReader* file) {
  ConfigReader& config = *file;
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(config, kDefaults4, sizes));
  made["attention_hidden_size"] = sizes.attention;
  FERMATA_ASSIGN_OR_RETURN(made["intermediate_size"],
                           config.Int("intermediate_size", 1, kMaxSize, 4 * sizes.hidden));
  FERMATA_ASSIGN_OR_RETURN(made["rescale_every"], config.Int("rescale_every", -1, 4096, 6));
  return ConfigReader(std::move(made), config.source());
}

absl::StatusOr<ConfigReader> MakeConfig5(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, HeadFields(*file, sizes));
  const int64_t heads = made["num_heads"];
  FERMATA_RETURN_IF_ERROR(ReadRwkv5Shapes(checkpoint, kAttention, sizes.attention, made));
  made["num_heads"] = heads;
  made["attention_hidden_size"] = sizes.attention;
  return ConfigReader(std::move(made), file->source());
}

absl::StatusOr<ConfigReader> MakeConfig6(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, HeadFields(*file, sizes));
  made["expand_k"] = made["expand_v"] = Expand(sizes.hidden, sizes.attention);
  FERMATA_RETURN_IF_ERROR(ReadRwkv6Ranks(checkpoint, kAttention, made));
  return ConfigReader(std::move(made), file->source());
}

}  // namespace

const Layout kTransformersRwkv4 = {"transformers' RWKV-4", Is4, MakeConfig4, kNames4, {}};
const Layout kTransformersRwkv5 = {"BBuf's RWKV-5", Is5, MakeConfig5, kNames5, {}};
const Layout kTransformersRwkv6 = {"BBuf's RWKV-6", Is6, MakeConfig6, kNames6, {}};

}  // namespace fermata
