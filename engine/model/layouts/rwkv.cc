#include "engine/model/layouts/rwkv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// The heads of numbers that there is one of for each channel, by the shape of any such tensor of the
// module `att`: [heads, head size], with extents of 1 behind. Where none has it, heads are as wide as
// BlinkDL's.
int64_t HeadsOf(const Checkpoint& checkpoint, const std::string& att, int64_t channels) {
  constexpr int64_t kHeadSize = 64;
  for (const char* name : {"time_decay", "time_faaaa", "time_first"}) {
    const StoredTensor* tensor = checkpoint.Find(att + name);
    if (tensor == nullptr || tensor->shape.size() < 2) continue;
    if (tensor->shape[0] * tensor->shape[1] == channels) return tensor->shape[0];
  }
  return std::max<int64_t>(channels / kHeadSize, 1);
}

}  // namespace

float OneMinus(float x) { return 1 - x; }
float ExpOf(float x) { return std::exp(x); }

absl::Status ReadRwkv5Shapes(const Checkpoint& checkpoint, const std::string& att, int64_t channels,
                             nlohmann::json& made) {
  FERMATA_ASSIGN_OR_RETURN(const int64_t decays, Elements(checkpoint, att + "time_decay"));
  made["use_gate"] = checkpoint.Has(att + "gate.weight");
  made["decay_per_channel"] = decays == channels;
  made["num_heads"] = decays == channels ? HeadsOf(checkpoint, att, channels) : decays;
  return absl::OkStatus();
}

absl::Status ReadRwkv6Ranks(const Checkpoint& checkpoint, const std::string& att,
                            nlohmann::json& made) {
  FERMATA_ASSIGN_OR_RETURN(made["proj_low_rank_dim"], Extent(checkpoint, att + "time_maa_w2", 1));
  FERMATA_ASSIGN_OR_RETURN(made["gate_low_rank_dim"], Extent(checkpoint, att + "time_decay_w1", 1));
  return absl::OkStatus();
}

double Expand(int64_t hidden, int64_t width) {
  // Rounded down as the mixers do.
  const double expand = static_cast<double>(width) / static_cast<double>(hidden);
  return static_cast<int64_t>(static_cast<double>(hidden) * expand) == width
             ? expand
             : std::nextafter(expand, std::numeric_limits<double>::infinity());
}

}  // namespace fermata
