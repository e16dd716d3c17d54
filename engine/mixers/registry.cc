#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/mixers/delta_net.h"
#include "engine/mixers/gated_delta_net.h"
#include "engine/mixers/gated_mlp.h"
#include "engine/mixers/gla.h"
#include "engine/mixers/linear_attention.h"
#include "engine/mixers/mamba2.h"
#include "engine/mixers/mixer.h"
#include "engine/mixers/retention.h"
#include "engine/mixers/rwkv4.h"
#include "engine/mixers/rwkv5.h"
#include "engine/mixers/rwkv6.h"
#include "engine/mixers/rwkv7.h"
#include "engine/mixers/rwkv_channel_mix.h"
#include "engine/mixers/softmax_attention.h"

namespace fermata {
namespace {

constexpr MixerEntry kMixers[] = {
    {"linear_attn", CreateLinearAttention},
    {"retention", CreateRetention},
    {"gla", CreateGla},
    {"delta_net", CreateDeltaNet},
    {"gated_delta_net", CreateGatedDeltaNet},
    {"mamba2", CreateMamba2},
    {"softmax_attn", CreateSoftmaxAttention},
    {"gated_mlp", CreateGatedMlp},
    {"rwkv4", CreateRwkv4},
    {"rwkv5", CreateRwkv5},
    {"rwkv6", CreateRwkv6},
    {"rwkv7", CreateRwkv7},
    {"rwkv_channel_mix", CreateRwkvChannelMix},
    {"rwkv7_channel_mix", CreateRwkv7ChannelMix},
};

}  // namespace

std::span<const MixerEntry> Mixers() { return kMixers; }

absl::StatusOr<std::unique_ptr<Mixer>> CreateMixer(std::string_view name,
                                                   const MixerOptions& options) {
  std::string names;
  for (const MixerEntry& entry : kMixers) {
    if (entry.name == name) return entry.create(options);
    absl::StrAppend(&names, names.empty() ? "" : ", ",
                    absl::string_view(entry.name.data(), entry.name.size()));
  }
  return absl::InvalidArgumentError(absl::StrCat("no mixer is called \"",
                                                 absl::string_view(name.data(), name.size()),
                                                 "\"; there are ", names));
}

int64_t StateFloats(const Mixer& mixer) {
  int64_t floats = 0;
  for (const StateBlock& block : mixer.state_blocks()) floats += block.size();
  return floats;
}

}  // namespace fermata
