// Mamba-2 as llama.cpp's converter writes it to GGUF: A itself in place of its logarithm, and the
// head left out where it is the embeddings.

#include <cmath>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/model/layouts/gguf.h"
#include "engine/model/layouts/layouts.h"
#include "engine/model/layouts/reading.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
constexpr auto kReshaped = StoredName::How::kReshaped;

float LogOfNegative(float x) { return std::log(-x); }

constexpr StoredName kNames[] = {
    {"backbone.embeddings.weight", "token_embd.weight"},
    {"backbone.norm_f.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"backbone.layers.*.norm.weight", "blk.*.attn_norm.weight"},
    {"backbone.layers.*.mixer.in_proj.weight", "blk.*.ssm_in.weight"},
    {"backbone.layers.*.mixer.conv1d.weight", "blk.*.ssm_conv1d.weight", kReshaped},
    {"backbone.layers.*.mixer.conv1d.bias", "blk.*.ssm_conv1d.bias"},
    {"backbone.layers.*.mixer.dt_bias", "blk.*.ssm_dt.bias"},
    {"backbone.layers.*.mixer.A_log", "blk.*.ssm_a", kReshaped, 0, 1, false, LogOfNegative},
    {"backbone.layers.*.mixer.D", "blk.*.ssm_d", kReshaped},
    {"backbone.layers.*.mixer.norm.weight", "blk.*.ssm_norm.weight", kReshaped},
    {"backbone.layers.*.mixer.out_proj.weight", "blk.*.ssm_out.weight"},
};

bool Matches(const Checkpoint& checkpoint, const ConfigReader*) {
  return IsGgufOf(checkpoint, "mamba2");
}

absl::StatusOr<ConfigReader> MakeConfig(const Checkpoint& checkpoint, ConfigReader*) {
  const GgufFile& gguf = *checkpoint.gguf();
  const auto size = [&gguf](const std::string& field) {
    return gguf.Int("mamba2." + field, 1, kMaxGgufSize);
  };
  Json made = {{"model_type", "mamba2"}, {"norm_per_group", true}};
  FERMATA_ASSIGN_OR_RETURN(const int64_t hidden, size("embedding_length"));
  FERMATA_ASSIGN_OR_RETURN(const int64_t width, size("ssm.inner_size"));
  FERMATA_ASSIGN_OR_RETURN(const int64_t heads, size("ssm.time_step_rank"));
  if (width % heads != 0) {
    return gguf.Error("mamba2.ssm.time_step_rank", "does not divide mamba2.ssm.inner_size");
  }
  if (width % hidden != 0) {
    return gguf.Error("mamba2.ssm.inner_size", "is no multiple of mamba2.embedding_length");
  }
  made["hidden_size"] = hidden;
  made["expand"] = width / hidden;
  made["num_heads"] = heads;
  made["head_dim"] = width / heads;
  FERMATA_ASSIGN_OR_RETURN(made["vocab_size"], Extent(checkpoint, "token_embd.weight", 0));
  FERMATA_ASSIGN_OR_RETURN(made["num_hidden_layers"], size("block_count"));
  FERMATA_ASSIGN_OR_RETURN(made["state_size"], size("ssm.state_size"));
  FERMATA_ASSIGN_OR_RETURN(made["conv_kernel"], size("ssm.conv_kernel"));
  FERMATA_ASSIGN_OR_RETURN(made["n_groups"],
                           gguf.Int("mamba2.ssm.group_count", 1, kMaxGgufSize, 1));
  FERMATA_ASSIGN_OR_RETURN(made["layer_norm_epsilon"],
                           gguf.Number("mamba2.attention.layer_norm_rms_epsilon", 0, 1, 1e-5));
  FERMATA_RETURN_IF_ERROR(PassGgufTokensOn(gguf, made));
  return ConfigReader(std::move(made), gguf.source());
}

}  // namespace

const Layout kGgufMamba2 = {"llama.cpp's Mamba-2", Matches, MakeConfig, kNames, {}};

}  // namespace fermata
