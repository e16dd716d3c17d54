// RWKV-6 and -7 as flash-linear-attention publishes them: the config is the canonical one, and so are
// most names.

#include "engine/model/layouts/layouts.h"
#include "engine/model/layouts/rwkv.h"

namespace fermata {
namespace {

constexpr auto kAsIs = StoredName::How::kAsIs;
constexpr auto kReshaped = StoredName::How::kReshaped;

// The stacks are in the order r, w, k, v, g.
constexpr StoredName kRwkv6[] = {
    {"model.layers.*.attn.x_x", "model.layers.*.attn.x_proj.0.mu"},
    {"model.layers.*.attn.x_r", "model.layers.*.attn.x_bias", kReshaped, 0, 5},
    {"model.layers.*.attn.x_w", "model.layers.*.attn.x_bias", kReshaped, 1, 5},
    {"model.layers.*.attn.x_k", "model.layers.*.attn.x_bias", kReshaped, 2, 5},
    {"model.layers.*.attn.x_v", "model.layers.*.attn.x_bias", kReshaped, 3, 5},
    {"model.layers.*.attn.x_g", "model.layers.*.attn.x_bias", kReshaped, 4, 5},
    {"model.layers.*.attn.x_r_lora.lora.0.weight", "model.layers.*.attn.x_proj.0.linear.weight",
     kAsIs, 0, 5},
    {"model.layers.*.attn.x_w_lora.lora.0.weight", "model.layers.*.attn.x_proj.0.linear.weight",
     kAsIs, 1, 5},
    {"model.layers.*.attn.x_k_lora.lora.0.weight", "model.layers.*.attn.x_proj.0.linear.weight",
     kAsIs, 2, 5},
    {"model.layers.*.attn.x_v_lora.lora.0.weight", "model.layers.*.attn.x_proj.0.linear.weight",
     kAsIs, 3, 5},
    {"model.layers.*.attn.x_g_lora.lora.0.weight", "model.layers.*.attn.x_proj.0.linear.weight",
     kAsIs, 4, 5},
    {"model.layers.*.attn.x_r_lora.lora.2.weight", "model.layers.*.attn.x_proj.2.weight", kAsIs, 0,
     5, true},
    {"model.layers.*.attn.x_w_lora.lora.2.weight", "model.layers.*.attn.x_proj.2.weight", kAsIs, 1,
     5, true},
    {"model.layers.*.attn.x_k_lora.lora.2.weight", "model.layers.*.attn.x_proj.2.weight", kAsIs, 2,
     5, true},
    {"model.layers.*.attn.x_v_lora.lora.2.weight", "model.layers.*.attn.x_proj.2.weight", kAsIs, 3,
     5, true},
    {"model.layers.*.attn.x_g_lora.lora.2.weight", "model.layers.*.attn.x_proj.2.weight", kAsIs, 4,
     5, true},
    {"model.layers.*.attn.w_lora.lora.0.weight", "model.layers.*.attn.w_proj.linear.lora.0.weight"},
    {"model.layers.*.attn.w_lora.lora.2.weight", "model.layers.*.attn.w_proj.linear.lora.2.weight"},
    {"model.layers.*.attn.w_lora.lora.2.bias", "model.layers.*.attn.w_proj.linear.lora.2.bias"},
    {"model.layers.*.attn.r_proj.weight", "model.layers.*.attn.r_proj.linear.weight"},
    {"model.layers.*.attn.k_proj.weight", "model.layers.*.attn.k_proj.linear.weight"},
    {"model.layers.*.attn.v_proj.weight", "model.layers.*.attn.v_proj.linear.weight"},
    {"model.layers.*.attn.g_proj.weight", "model.layers.*.attn.g_proj.linear.weight"},
    {"model.layers.*.ffn.x_k", "model.layers.*.ffn.key.mu"},
    {"model.layers.*.ffn.x_r", "model.layers.*.ffn.receptance.mu"},
    {"model.layers.*.ffn.key.weight", "model.layers.*.ffn.key.linear.weight"},
    {"model.layers.*.ffn.receptance.weight", "model.layers.*.ffn.receptance.linear.weight"},
};

// Until April 2025 the shares were stacked, in the order r, w, k, v, a, g.
constexpr StoredName kRwkv7[] = {
    {"model.layers.*.attn.x_r", "model.layers.*.attn.x_r", kReshaped},
    {"model.layers.*.attn.x_w", "model.layers.*.attn.x_w", kReshaped},
    {"model.layers.*.attn.x_k", "model.layers.*.attn.x_k", kReshaped},
    {"model.layers.*.attn.x_v", "model.layers.*.attn.x_v", kReshaped},
    {"model.layers.*.attn.x_a", "model.layers.*.attn.x_a", kReshaped},
    {"model.layers.*.attn.x_g", "model.layers.*.attn.x_g", kReshaped},
    {"model.layers.*.attn.x_r", "model.layers.*.attn.x_x", kReshaped, 0, 6},
    {"model.layers.*.attn.x_w", "model.layers.*.attn.x_x", kReshaped, 1, 6},
    {"model.layers.*.attn.x_k", "model.layers.*.attn.x_x", kReshaped, 2, 6},
    {"model.layers.*.attn.x_v", "model.layers.*.attn.x_x", kReshaped, 3, 6},
    {"model.layers.*.attn.x_a", "model.layers.*.attn.x_x", kReshaped, 4, 6},
    {"model.layers.*.attn.x_g", "model.layers.*.attn.x_x", kReshaped, 5, 6},
};

bool Is6(const Checkpoint& checkpoint, const ConfigReader* config) {
  return config != nullptr && AnyEndsWith(checkpoint, ".attn.x_bias");
}

bool Is7(const Checkpoint& checkpoint, const ConfigReader* config) {
  return config != nullptr && AnyEndsWith(checkpoint, ".attn.r_k");
}

}  // namespace

const Layout kFlaRwkv6 = {"flash-linear-attention's RWKV-6", Is6, nullptr, kRwkv6, {}};
const Layout kFlaRwkv7 = {"flash-linear-attention's RWKV-7", Is7, nullptr, kRwkv7, {}};

}  // namespace fermata
