// RWKV-6 and -7 as llama.cpp's converter writes them to GGUF: matrices already turned round, shares
// stacked, and in RWKV-6 the weights that write into the residual stream divided by two for every
// `rescale_every_n_layers` blocks before them, because it halves the stream as often.

#include <array>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/model/layouts/gguf.h"
#include "engine/model/layouts/layouts.h"
#include "engine/model/layouts/rwkv.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
constexpr auto kAsIs = StoredName::How::kAsIs;
constexpr auto kReshaped = StoredName::How::kReshaped;

constexpr StoredName kSkeleton[] = {
    {"model.embeddings.weight", "token_embd.weight"},
    {"model.layers.0.pre_norm.weight", "token_embd_norm.weight"},
    {"model.layers.0.pre_norm.bias", "token_embd_norm.bias"},
    {"model.layers.*.attn_norm.weight", "blk.*.attn_norm.weight"},
    {"model.layers.*.attn_norm.bias", "blk.*.attn_norm.bias"},
    {"model.layers.*.ffn_norm.weight", "blk.*.attn_norm_2.weight"},
    {"model.layers.*.ffn_norm.bias", "blk.*.attn_norm_2.bias"},
    {"model.norm.weight", "output_norm.weight"},
    {"model.norm.bias", "output_norm.bias"},
    {"lm_head.weight", "output.weight"},
    {"model.layers.*.attn.r_proj.weight", "blk.*.time_mix_receptance.weight"},
    {"model.layers.*.attn.k_proj.weight", "blk.*.time_mix_key.weight"},
    {"model.layers.*.attn.v_proj.weight", "blk.*.time_mix_value.weight"},
    {"model.layers.*.attn.o_proj.weight", "blk.*.time_mix_output.weight"},
    {"model.layers.*.attn.g_norm.weight", "blk.*.time_mix_ln.weight"},
    {"model.layers.*.attn.g_norm.bias", "blk.*.time_mix_ln.bias"},
    {"model.layers.*.ffn.x_k", "blk.*.channel_mix_lerp_k.weight", kReshaped},
    {"model.layers.*.ffn.key.weight", "blk.*.channel_mix_key.weight"},
    {"model.layers.*.ffn.value.weight", "blk.*.channel_mix_value.weight"},
};

// The stacks are in the order w, k, v, r, g. Older files have the shares apart.
constexpr StoredName kRwkv6[] = {
    {"model.layers.*.attn.x_x", "blk.*.time_mix_lerp_x.weight", kReshaped},
    {"model.layers.*.attn.x_w", "blk.*.time_mix_lerp_fused.weight", kReshaped, 0, 5},
    {"model.layers.*.attn.x_k", "blk.*.time_mix_lerp_fused.weight", kReshaped, 1, 5},
    {"model.layers.*.attn.x_v", "blk.*.time_mix_lerp_fused.weight", kReshaped, 2, 5},
    {"model.layers.*.attn.x_r", "blk.*.time_mix_lerp_fused.weight", kReshaped, 3, 5},
    {"model.layers.*.attn.x_g", "blk.*.time_mix_lerp_fused.weight", kReshaped, 4, 5},
    {"model.layers.*.attn.x_w", "blk.*.time_mix_lerp_w.weight", kReshaped},
    {"model.layers.*.attn.x_k", "blk.*.time_mix_lerp_k.weight", kReshaped},
    {"model.layers.*.attn.x_v", "blk.*.time_mix_lerp_v.weight", kReshaped},
    {"model.layers.*.attn.x_r", "blk.*.time_mix_lerp_r.weight", kReshaped},
    {"model.layers.*.attn.x_g", "blk.*.time_mix_lerp_g.weight", kReshaped},
    {"model.layers.*.attn.x_w_lora.lora.0.weight", "blk.*.time_mix_w1.weight", kAsIs, 0, 5},
    {"model.layers.*.attn.x_k_lora.lora.0.weight", "blk.*.time_mix_w1.weight", kAsIs, 1, 5},
    {"model.layers.*.attn.x_v_lora.lora.0.weight", "blk.*.time_mix_w1.weight", kAsIs, 2, 5},
    {"model.layers.*.attn.x_r_lora.lora.0.weight", "blk.*.time_mix_w1.weight", kAsIs, 3, 5},
    {"model.layers.*.attn.x_g_lora.lora.0.weight", "blk.*.time_mix_w1.weight", kAsIs, 4, 5},
    {"model.layers.*.attn.x_w_lora.lora.2.weight", "blk.*.time_mix_w2.weight", kAsIs, 0, 5},
    {"model.layers.*.attn.x_k_lora.lora.2.weight", "blk.*.time_mix_w2.weight", kAsIs, 1, 5},
    {"model.layers.*.attn.x_v_lora.lora.2.weight", "blk.*.time_mix_w2.weight", kAsIs, 2, 5},
    {"model.layers.*.attn.x_r_lora.lora.2.weight", "blk.*.time_mix_w2.weight", kAsIs, 3, 5},
    {"model.layers.*.attn.x_g_lora.lora.2.weight", "blk.*.time_mix_w2.weight", kAsIs, 4, 5},
    {"model.layers.*.attn.w_lora.lora.0.weight", "blk.*.time_mix_decay_w1.weight"},
    {"model.layers.*.attn.w_lora.lora.2.weight", "blk.*.time_mix_decay_w2.weight"},
    {"model.layers.*.attn.w_lora.lora.2.bias", "blk.*.time_mix_decay.weight", kReshaped},
    {"model.layers.*.attn.bonus", "blk.*.time_mix_first.weight", kReshaped},
    {"model.layers.*.attn.g_proj.weight", "blk.*.time_mix_gate.weight"},
    {"model.layers.*.ffn.x_r", "blk.*.channel_mix_lerp_r.weight", kReshaped},
    {"model.layers.*.ffn.receptance.weight", "blk.*.channel_mix_receptance.weight"},
};

// The stack is in the order r, w, k, v, a, g.
constexpr StoredName kRwkv7[] = {
    {"model.layers.*.attn.x_r", "blk.*.time_mix_lerp_fused.weight", kReshaped, 0, 6},
    {"model.layers.*.attn.x_w", "blk.*.time_mix_lerp_fused.weight", kReshaped, 1, 6},
    {"model.layers.*.attn.x_k", "blk.*.time_mix_lerp_fused.weight", kReshaped, 2, 6},
    {"model.layers.*.attn.x_v", "blk.*.time_mix_lerp_fused.weight", kReshaped, 3, 6},
    {"model.layers.*.attn.x_a", "blk.*.time_mix_lerp_fused.weight", kReshaped, 4, 6},
    {"model.layers.*.attn.x_g", "blk.*.time_mix_lerp_fused.weight", kReshaped, 5, 6},
    {"model.layers.*.attn.w_lora.lora.0.weight", "blk.*.time_mix_w1.weight"},
    {"model.layers.*.attn.w_lora.lora.2.weight", "blk.*.time_mix_w2.weight"},
    {"model.layers.*.attn.w_lora.lora.2.bias", "blk.*.time_mix_w0.weight", kReshaped},
    {"model.layers.*.attn.a_lora.lora.0.weight", "blk.*.time_mix_a1.weight"},
    {"model.layers.*.attn.a_lora.lora.2.weight", "blk.*.time_mix_a2.weight"},
    {"model.layers.*.attn.a_lora.lora.2.bias", "blk.*.time_mix_a0.weight", kReshaped},
    {"model.layers.*.attn.v_lora.lora.0.weight", "blk.*.time_mix_v1.weight"},
    {"model.layers.*.attn.v_lora.lora.2.weight", "blk.*.time_mix_v2.weight"},
    {"model.layers.*.attn.v_lora.lora.2.bias", "blk.*.time_mix_v0.weight", kReshaped},
    {"model.layers.*.attn.g_lora.lora.0.weight", "blk.*.time_mix_g1.weight"},
    {"model.layers.*.attn.g_lora.lora.2.weight", "blk.*.time_mix_g2.weight"},
    {"model.layers.*.attn.k_k", "blk.*.time_mix_k_k.weight", kReshaped},
    {"model.layers.*.attn.k_a", "blk.*.time_mix_k_a.weight", kReshaped},
    {"model.layers.*.attn.r_k", "blk.*.time_mix_r_k.weight", kReshaped},
};

constexpr auto kNames6 = JoinNames(kSkeleton, kRwkv6);
constexpr auto kNames7 = JoinNames(kSkeleton, kRwkv7);

// What the first layer has for the sake of uniformity.
constexpr std::string_view kUnused7[] = {"blk.0.time_mix_v0.weight", "blk.0.time_mix_v1.weight",
                                         "blk.0.time_mix_v2.weight"};

bool Is6(const Checkpoint& checkpoint, const ConfigReader*) {
  return IsGgufOf(checkpoint, "rwkv6");
}
bool Is7(const Checkpoint& checkpoint, const ConfigReader*) {
  return IsGgufOf(checkpoint, "rwkv7");
}

// The fields of both versions. `arch` begins their keys.
absl::StatusOr<Json> CommonFields(const Checkpoint& checkpoint, const std::string& arch) {
  const GgufFile& gguf = *checkpoint.gguf();
  Json made = {{"model_type", arch}, {"g_norm_eps", kRwkvHeadNormEps}};
  FERMATA_ASSIGN_OR_RETURN(made["vocab_size"], Extent(checkpoint, "token_embd.weight", 0));
  FERMATA_ASSIGN_OR_RETURN(made["hidden_size"],
                           gguf.Int(arch + ".embedding_length", 1, kMaxGgufSize));
  FERMATA_ASSIGN_OR_RETURN(made["num_hidden_layers"],
                           gguf.Int(arch + ".block_count", 1, kMaxGgufSize));
  FERMATA_ASSIGN_OR_RETURN(made["intermediate_size"],
                           gguf.Int(arch + ".feed_forward_length", 1, kMaxGgufSize));
  FERMATA_ASSIGN_OR_RETURN(made["norm_eps"],
                           gguf.Number(arch + ".attention.layer_norm_epsilon", 0, 1, 1e-5));
  const std::string shifts = arch + ".token_shift_count";
  FERMATA_ASSIGN_OR_RETURN(const int64_t count, gguf.Int(shifts, 0, kMaxGgufSize, 2));
  if (count != 2) return gguf.Error(shifts, "models without a channel mix are not known");
  made["eos_token_id"] = 0;  // RWKV's own, where the file does not say.
  FERMATA_RETURN_IF_ERROR(PassGgufTokensOn(gguf, made));
  return made;
}

absl::StatusOr<ConfigReader> MakeConfig6(const Checkpoint& checkpoint, ConfigReader*) {
  const GgufFile& gguf = *checkpoint.gguf();
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, "rwkv6"));
  FERMATA_ASSIGN_OR_RETURN(made["halve_every"],
                           gguf.Int("rwkv6.rescale_every_n_layers", 0, kMaxGgufSize, 0));
  FERMATA_ASSIGN_OR_RETURN(const int64_t head_size,
                           gguf.Int("rwkv6.wkv.head_size", 1, kMaxGgufSize));
  if (made["hidden_size"].get<int64_t>() % head_size != 0) {
    return gguf.Error("rwkv6.wkv.head_size", "does not divide rwkv6.embedding_length");
  }
  made["num_heads"] = made["hidden_size"].get<int64_t>() / head_size;
  made["expand_k"] = made["expand_v"] = 1;
  FERMATA_ASSIGN_OR_RETURN(made["proj_low_rank_dim"],
                           gguf.Int("rwkv6.time_mix_extra_dim", 1, kMaxGgufSize));
  FERMATA_ASSIGN_OR_RETURN(made["gate_low_rank_dim"],
                           gguf.Int("rwkv6.time_decay_extra_dim", 1, kMaxGgufSize));
  return ConfigReader(std::move(made), gguf.source());
}

absl::StatusOr<ConfigReader> MakeConfig7(const Checkpoint& checkpoint, ConfigReader*) {
  const GgufFile& gguf = *checkpoint.gguf();
  FERMATA_ASSIGN_OR_RETURN(Json made, CommonFields(checkpoint, "rwkv7"));
  made["fuse_norm"] = false;
  FERMATA_ASSIGN_OR_RETURN(made["head_dim"], gguf.Int("rwkv7.wkv.head_size", 1, kMaxGgufSize));
  // The keys for the ranks hold a rule of thumb where the converter was not told them.
  const std::string blk = "blk.0.time_mix_";
  FERMATA_ASSIGN_OR_RETURN(made["decay_low_rank_dim"], Extent(checkpoint, blk + "w1.weight", 0));
  FERMATA_ASSIGN_OR_RETURN(made["a_low_rank_dim"], Extent(checkpoint, blk + "a1.weight", 0));
  FERMATA_ASSIGN_OR_RETURN(made["gate_low_rank_dim"], Extent(checkpoint, blk + "g1.weight", 0));
  if (made["num_hidden_layers"] > 1) {
    FERMATA_ASSIGN_OR_RETURN(made["v_low_rank_dim"],
                             Extent(checkpoint, "blk.1.time_mix_v1.weight", 0));
  }
  return ConfigReader(std::move(made), gguf.source());
}

}  // namespace

const Layout kGgufRwkv6 = {"llama.cpp's RWKV-6", Is6, MakeConfig6, kNames6, {}};
const Layout kGgufRwkv7 = {"llama.cpp's RWKV-7", Is7, MakeConfig7, kNames7, kUnused7};

}  // namespace fermata
