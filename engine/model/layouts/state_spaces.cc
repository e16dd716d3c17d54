// Mamba-2 as the mamba_ssm library publishes it: the names are nearly those of transformers, the
// config is the library's own.

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/model/layouts/layouts.h"
#include "engine/model/layouts/reading.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 24;

constexpr StoredName kNames[] = {
    {"backbone.embeddings.weight", "backbone.embedding.weight"},
};

bool Matches(const Checkpoint&, const ConfigReader* config) {
  return config != nullptr && config->Has("d_model") && config->Has("ssm_cfg");
}

bool MatchesNames(const Checkpoint& checkpoint, const ConfigReader* config) {
  return config != nullptr && config->Has("model_type") &&
         checkpoint.Has("backbone.embedding.weight");
}

// `vocab_size` rounded up as the library rounds it.
absl::StatusOr<int64_t> PaddedVocabSize(ConfigReader& config) {
  FERMATA_ASSIGN_OR_RETURN(const int64_t vocab, config.Int("vocab_size", 1, kMaxSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t multiple,
                           config.Int("pad_vocab_size_multiple", 1, kMaxSize, 8));
  return (vocab + multiple - 1) / multiple * multiple;
}

// What the library can build and Fermata does not.
absl::Status RefuseOthers(ConfigReader& config, ConfigReader& ssm) {
  FERMATA_ASSIGN_OR_RETURN(const std::string layer, ssm.String("layer", "Mamba1"));
  if (layer != "Mamba2") {
    return ssm.Error("layer", Quoted(layer) + " is not known; Mamba2 is");
  }
  FERMATA_ASSIGN_OR_RETURN(const int64_t intermediate,
                           config.Int("d_intermediate", 0, kMaxSize, 0));
  if (intermediate != 0) return config.Error("d_intermediate", "feed-forward layers are not known");
  FERMATA_ASSIGN_OR_RETURN(const auto attention, config.Ints("attn_layer_idx", 0, kMaxSize));
  if (!attention.empty()) return config.Error("attn_layer_idx", "attention layers are not known");
  FERMATA_ASSIGN_OR_RETURN(const bool d_has_head_dim, ssm.Bool("D_has_hdim", false));
  if (d_has_head_dim) return ssm.Error("D_has_hdim", "a D for each channel is not known");
  return absl::OkStatus();
}

absl::StatusOr<ConfigReader> MakeConfig(const Checkpoint&, ConfigReader* file) {
  ConfigReader& config = *file;
  FERMATA_ASSIGN_OR_RETURN(std::optional<ConfigReader> ssm, config.Object("ssm_cfg"));
  if (!ssm.has_value()) return config.Error("ssm_cfg", "missing");
  FERMATA_RETURN_IF_ERROR(RefuseOthers(config, *ssm));
  Json made = {{"model_type", "mamba2"}, {"norm_per_group", true}};
  FERMATA_ASSIGN_OR_RETURN(const int64_t hidden, config.Int("d_model", 1, kMaxSize));
  FERMATA_ASSIGN_OR_RETURN(const int64_t expand, ssm->Int("expand", 1, 64, 2));
  FERMATA_ASSIGN_OR_RETURN(const int64_t head_dim, ssm->Int("headdim", 1, kMaxSize, 64));
  made["hidden_size"] = hidden;
  made["expand"] = expand;
  made["head_dim"] = head_dim;
  made["num_heads"] = hidden * expand / head_dim;
  FERMATA_ASSIGN_OR_RETURN(made["num_hidden_layers"], config.Int("n_layer", 1, kMaxSize));
  FERMATA_ASSIGN_OR_RETURN(made["vocab_size"], PaddedVocabSize(config));
  FERMATA_ASSIGN_OR_RETURN(made["state_size"], ssm->Int("d_state", 1, kMaxSize, 128));
  FERMATA_ASSIGN_OR_RETURN(made["n_groups"], ssm->Int("ngroups", 1, kMaxSize, 1));
  FERMATA_ASSIGN_OR_RETURN(made["conv_kernel"], ssm->Int("d_conv", 1, 64, 4));
  FERMATA_ASSIGN_OR_RETURN(made["use_bias"], ssm->Bool("bias", false));
  FERMATA_ASSIGN_OR_RETURN(made["use_conv_bias"], ssm->Bool("conv_bias", true));
  FERMATA_ASSIGN_OR_RETURN(made["rms_norm"], ssm->Bool("rmsnorm", true));
  FERMATA_ASSIGN_OR_RETURN(made["norm_before_gate"], ssm->Bool("norm_before_gate", false));
  FERMATA_ASSIGN_OR_RETURN(made["tie_word_embeddings"], config.Bool("tie_embeddings", true));
  FERMATA_ASSIGN_OR_RETURN(const bool rms_norm, config.Bool("rms_norm", true));
  if (!rms_norm) return config.Error("rms_norm", "models with LayerNorm are not known");
  made["layer_norm_epsilon"] = 1e-5;
  config.Ignore({"attn_cfg", "fused_add_norm", "residual_in_fp32"});
  FERMATA_ASSIGN_OR_RETURN(
      const ConfigReader::Interval limit,
      ssm->ReadInterval("dt_limit", {0, std::numeric_limits<double>::infinity()}));
  // JSON has no infinity; the reader of this field takes null for it.
  made["time_step_limit"] = {limit.low, std::isinf(limit.high) ? Json(nullptr) : Json(limit.high)};
  FERMATA_RETURN_IF_ERROR(PassTokensOn(config, made));
  ssm->Ignore({"A_init_range", "chunk_size", "conv_init", "dt_init_floor", "dt_max", "dt_min",
               "use_mem_eff_path"});
  if (!ssm->Unread().empty()) return ssm->Error(ssm->Unread().front(), "is not known");
  return ConfigReader(std::move(made), config.source());
}

}  // namespace

const Layout kStateSpacesMamba2 = {
    .name = "mamba_ssm's Mamba-2", .matches = Matches, .make_config = MakeConfig, .names = kNames};

// The library's names beside a config of transformers or flash-linear-attention, which both know them.
const Layout kStateSpacesNames = {.name = "mamba_ssm's names of Mamba-2",
                                  .matches = MatchesNames,
                                  .make_config = nullptr,
                                  .names = kNames};

}  // namespace fermata
