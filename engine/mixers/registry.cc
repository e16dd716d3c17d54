#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/mixers/gated_mlp.h"
#include "engine/mixers/linear_attention.h"
#include "engine/mixers/mixer.h"
#include "engine/mixers/softmax_attention.h"

namespace fermata {
namespace {

constexpr MixerEntry kMixers[] = {
    {"linear_attn", CreateLinearAttention},
    {"softmax_attn", CreateSoftmaxAttention},
    {"gated_mlp", CreateGatedMlp},
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
