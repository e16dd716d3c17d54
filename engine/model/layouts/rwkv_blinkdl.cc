// RWKV as its author publishes it (github.com/BlinkDL/RWKV-LM): no config, all that there is to know
// shows in the tensors' names and shapes. Versions are told apart as ChatRWKV does.

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

// All versions.
constexpr StoredName kSkeleton[] = {
    {"model.embeddings.weight", "emb.weight"},
    {"model.layers.*.pre_norm.weight", "blocks.*.ln0.weight"},
    {"model.layers.*.pre_norm.bias", "blocks.*.ln0.bias"},
    {"model.layers.*.attn_norm.weight", "blocks.*.ln1.weight"},
    {"model.layers.*.attn_norm.bias", "blocks.*.ln1.bias"},
    {"model.layers.*.ffn_norm.weight", "blocks.*.ln2.weight"},
    {"model.layers.*.ffn_norm.bias", "blocks.*.ln2.bias"},
    {"model.norm.weight", "ln_out.weight"},
    {"model.norm.bias", "ln_out.bias"},
    {"lm_head.weight", "head.weight"},
    {"model.layers.*.attn.r_proj.weight", "blocks.*.att.receptance.weight"},
    {"model.layers.*.attn.k_proj.weight", "blocks.*.att.key.weight"},
    {"model.layers.*.attn.v_proj.weight", "blocks.*.att.value.weight"},
    {"model.layers.*.attn.o_proj.weight", "blocks.*.att.output.weight"},
    {"model.layers.*.ffn.key.weight", "blocks.*.ffn.key.weight"},
    {"model.layers.*.ffn.value.weight", "blocks.*.ffn.value.weight"},
};

// All but RWKV-7.
constexpr StoredName kReceptance[] = {
    {"model.layers.*.ffn.receptance.weight", "blocks.*.ffn.receptance.weight"},
};

// RWKV-4 and -5.
constexpr StoredName kTimeMix[] = {
    Converted("model.layers.*.attn.x_r", "blocks.*.att.time_mix_r", OneMinus),
    Converted("model.layers.*.attn.x_k", "blocks.*.att.time_mix_k", OneMinus),
    Converted("model.layers.*.attn.x_v", "blocks.*.att.time_mix_v", OneMinus),
    Converted("model.layers.*.ffn.x_r", "blocks.*.ffn.time_mix_r", OneMinus),
    Converted("model.layers.*.ffn.x_k", "blocks.*.ffn.time_mix_k", OneMinus),
};

constexpr StoredName kRwkv4[] = {
    {"model.layers.*.attn.time_decay", "blocks.*.att.time_decay", kReshaped},
    {"model.layers.*.attn.time_first", "blocks.*.att.time_first", kReshaped},
};

// RWKV-5 and -6.
constexpr StoredName kGateAndNorm[] = {
    {"model.layers.*.attn.g_proj.weight", "blocks.*.att.gate.weight"},
    {"model.layers.*.attn.g_norm.weight", "blocks.*.att.ln_x.weight"},
    {"model.layers.*.attn.g_norm.bias", "blocks.*.att.ln_x.bias"},
    {"model.layers.*.attn.bonus", "blocks.*.att.time_faaaa", kReshaped},
};

constexpr StoredName kRwkv5[] = {
    Converted("model.layers.*.attn.x_g", "blocks.*.att.time_mix_g", OneMinus),
    {"model.layers.*.attn.time_decay", "blocks.*.att.time_decay", kReshaped},
    Converted("model.layers.*.attn.bonus", "blocks.*.att.time_first", ExpOf),
};

// The stacks are in the order w, k, v, r, g.
constexpr StoredName kRwkv6[] = {
    {"model.layers.*.attn.x_x", "blocks.*.att.time_maa_x", kReshaped},
    {"model.layers.*.attn.x_w", "blocks.*.att.time_maa_w", kReshaped},
    {"model.layers.*.attn.x_k", "blocks.*.att.time_maa_k", kReshaped},
    {"model.layers.*.attn.x_v", "blocks.*.att.time_maa_v", kReshaped},
    {"model.layers.*.attn.x_r", "blocks.*.att.time_maa_r", kReshaped},
    {"model.layers.*.attn.x_g", "blocks.*.att.time_maa_g", kReshaped},
    {"model.layers.*.attn.x_w_lora.lora.0.weight", "blocks.*.att.time_maa_w1", kTransposed, 0, 5,
     true},
    {"model.layers.*.attn.x_k_lora.lora.0.weight", "blocks.*.att.time_maa_w1", kTransposed, 1, 5,
     true},
    {"model.layers.*.attn.x_v_lora.lora.0.weight", "blocks.*.att.time_maa_w1", kTransposed, 2, 5,
     true},
    {"model.layers.*.attn.x_r_lora.lora.0.weight", "blocks.*.att.time_maa_w1", kTransposed, 3, 5,
     true},
    {"model.layers.*.attn.x_g_lora.lora.0.weight", "blocks.*.att.time_maa_w1", kTransposed, 4, 5,
     true},
    {"model.layers.*.attn.x_w_lora.lora.2.weight", "blocks.*.att.time_maa_w2", kTransposed, 0, 5},
    {"model.layers.*.attn.x_k_lora.lora.2.weight", "blocks.*.att.time_maa_w2", kTransposed, 1, 5},
    {"model.layers.*.attn.x_v_lora.lora.2.weight", "blocks.*.att.time_maa_w2", kTransposed, 2, 5},
    {"model.layers.*.attn.x_r_lora.lora.2.weight", "blocks.*.att.time_maa_w2", kTransposed, 3, 5},
    {"model.layers.*.attn.x_g_lora.lora.2.weight", "blocks.*.att.time_maa_w2", kTransposed, 4, 5},
    {"model.layers.*.attn.w_lora.lora.0.weight", "blocks.*.att.time_decay_w1", kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.weight", "blocks.*.att.time_decay_w2", kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.bias", "blocks.*.att.time_decay", kReshaped},
    {"model.layers.*.ffn.x_k", "blocks.*.ffn.time_maa_k", kReshaped},
    {"model.layers.*.ffn.x_r", "blocks.*.ffn.time_maa_r", kReshaped},
};

constexpr StoredName kRwkv7[] = {
    {"model.layers.*.attn.x_r", "blocks.*.att.x_r", kReshaped},
    {"model.layers.*.attn.x_w", "blocks.*.att.x_w", kReshaped},
    {"model.layers.*.attn.x_k", "blocks.*.att.x_k", kReshaped},
    {"model.layers.*.attn.x_v", "blocks.*.att.x_v", kReshaped},
    {"model.layers.*.attn.x_a", "blocks.*.att.x_a", kReshaped},
    {"model.layers.*.attn.x_g", "blocks.*.att.x_g", kReshaped},
    {"model.layers.*.attn.w_lora.lora.0.weight", "blocks.*.att.w1", kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.weight", "blocks.*.att.w2", kTransposed},
    {"model.layers.*.attn.w_lora.lora.2.bias", "blocks.*.att.w0", kReshaped},
    {"model.layers.*.attn.a_lora.lora.0.weight", "blocks.*.att.a1", kTransposed},
    {"model.layers.*.attn.a_lora.lora.2.weight", "blocks.*.att.a2", kTransposed},
    {"model.layers.*.attn.a_lora.lora.2.bias", "blocks.*.att.a0", kReshaped},
    {"model.layers.*.attn.v_lora.lora.0.weight", "blocks.*.att.v1", kTransposed},
    {"model.layers.*.attn.v_lora.lora.2.weight", "blocks.*.att.v2", kTransposed},
    {"model.layers.*.attn.v_lora.lora.2.bias", "blocks.*.att.v0", kReshaped},
    {"model.layers.*.attn.g_lora.lora.0.weight", "blocks.*.att.g1", kTransposed},
    {"model.layers.*.attn.g_lora.lora.2.weight", "blocks.*.att.g2", kTransposed},
    {"model.layers.*.attn.k_k", "blocks.*.att.k_k", kReshaped},
    {"model.layers.*.attn.k_a", "blocks.*.att.k_a", kReshaped},
    {"model.layers.*.attn.r_k", "blocks.*.att.r_k", kReshaped},
    {"model.layers.*.attn.g_norm.weight", "blocks.*.att.ln_x.weight"},
    {"model.layers.*.attn.g_norm.bias", "blocks.*.att.ln_x.bias"},
    {"model.layers.*.ffn.x_k", "blocks.*.ffn.x_k", kReshaped},
};

constexpr auto kNames4 = JoinNames(kSkeleton, kReceptance, kTimeMix, kRwkv4);
constexpr auto kNames5 = JoinNames(kSkeleton, kReceptance, kTimeMix, kGateAndNorm, kRwkv5);
constexpr auto kNames6 = JoinNames(kSkeleton, kReceptance, kGateAndNorm, kRwkv6);
constexpr auto kNames7 = JoinNames(kSkeleton, kRwkv7);

// What the first layer has in some files, for the sake of uniformity.
constexpr std::string_view kUnused7[] = {"blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2"};

bool HasAttention(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.Has("emb.weight") && checkpoint.Has("blocks.0.att." + name);
}

bool Is7(const Checkpoint& checkpoint, const ConfigReader*) {
  return HasAttention(checkpoint, "r_k");
}
bool Is6(const Checkpoint& checkpoint, const ConfigReader*) {
  return HasAttention(checkpoint, "time_maa_x");
}
bool Is5(const Checkpoint& checkpoint, const ConfigReader*) {
  return HasAttention(checkpoint, "ln_x.weight") && HasAttention(checkpoint, "time_mix_k");
}
bool Is4(const Checkpoint& checkpoint, const ConfigReader*) {
  return HasAttention(checkpoint, "time_first") && !HasAttention(checkpoint, "ln_x.weight");
}

struct Sizes {
  int64_t hidden = 0;
  int64_t attention = 0;  // Channels of r, k and v.
};

// The fields of all versions. Token 0 ends a text in all that BlinkDL publishes; a config beside the
// weights may say otherwise.
absl::StatusOr<Json> CommonFields(const Checkpoint& checkpoint, ConfigReader* file, Sizes& sizes) {
  Json made = {{"norm_eps", 1e-5}, {"eos_token_id", 0}};
  FERMATA_ASSIGN_OR_RETURN(made["vocab_size"], Extent(checkpoint, "emb.weight", 0));
  FERMATA_ASSIGN_OR_RETURN(sizes.hidden, Extent(checkpoint, "emb.weight", 1));
  FERMATA_ASSIGN_OR_RETURN(sizes.attention, Extent(checkpoint, "blocks.0.att.key.weight", 0));
  made["hidden_size"] = sizes.hidden;
  made["num_hidden_layers"] = CountBlocks(checkpoint, "blocks.", ".ln1.weight");
  FERMATA_ASSIGN_OR_RETURN(made["intermediate_size"],
                           Extent(checkpoint, "blocks.0.ffn.key.weight", 0));
  if (file != nullptr) FERMATA_RETURN_IF_ERROR(PassTokensOn(*file, made));
  return made;
}

ConfigReader Made(const Checkpoint& checkpoint, Json made) {
  return ConfigReader(std::move(made), checkpoint.directory());
}

absl::StatusOr<ConfigReader> MakeConfig4(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, file, sizes));
  made["model_type"] = "rwkv4";
  made["attention_hidden_size"] = sizes.attention;
  return Made(checkpoint, std::move(made));
}

absl::StatusOr<ConfigReader> MakeConfig5(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, file, sizes));
  made["model_type"] = "rwkv5";
  made["attention_hidden_size"] = sizes.attention;
  made["g_norm_eps"] = kRwkvHeadNormEps;
  FERMATA_RETURN_IF_ERROR(ReadRwkv5Shapes(checkpoint, "blocks.0.att.", sizes.attention, made));
  return Made(checkpoint, std::move(made));
}

absl::StatusOr<ConfigReader> MakeConfig6(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, file, sizes));
  made["model_type"] = "rwkv6";
  made["g_norm_eps"] = kRwkvHeadNormEps;
  made["expand_k"] = made["expand_v"] = Expand(sizes.hidden, sizes.attention);
  FERMATA_ASSIGN_OR_RETURN(made["num_heads"], Extent(checkpoint, "blocks.0.att.time_faaaa", 0));
  FERMATA_RETURN_IF_ERROR(ReadRwkv6Ranks(checkpoint, "blocks.0.att.", made));
  return Made(checkpoint, std::move(made));
}

absl::StatusOr<ConfigReader> MakeConfig7(const Checkpoint& checkpoint, ConfigReader* file) {
  Sizes sizes;
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, file, sizes));
  const std::string att = "blocks.0.att.";
  made["model_type"] = "rwkv7";
  made["fuse_norm"] = false;
  made["g_norm_eps"] = kRwkvHeadNormEps;
  FERMATA_ASSIGN_OR_RETURN(made["head_dim"], Extent(checkpoint, att + "r_k", 1));
  FERMATA_ASSIGN_OR_RETURN(made["decay_low_rank_dim"], Extent(checkpoint, att + "w1", 1));
  FERMATA_ASSIGN_OR_RETURN(made["a_low_rank_dim"], Extent(checkpoint, att + "a1", 1));
  FERMATA_ASSIGN_OR_RETURN(made["gate_low_rank_dim"], Extent(checkpoint, att + "g1", 1));
  if (made["num_hidden_layers"] > 1) {
    FERMATA_ASSIGN_OR_RETURN(made["v_low_rank_dim"], Extent(checkpoint, "blocks.1.att.v1", 1));
  }
  return Made(checkpoint, std::move(made));
}

}  // namespace

const Layout kBlinkDlRwkv4 = {"BlinkDL's RWKV-4", Is4, MakeConfig4, kNames4, {}};
const Layout kBlinkDlRwkv5 = {"BlinkDL's RWKV-5", Is5, MakeConfig5, kNames5, {}};
const Layout kBlinkDlRwkv6 = {"BlinkDL's RWKV-6", Is6, MakeConfig6, kNames6, {}};
const Layout kBlinkDlRwkv7 = {"BlinkDL's RWKV-7", Is7, MakeConfig7, kNames7, kUnused7};

}  // namespace fermata
