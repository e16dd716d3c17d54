#ifndef FERMATA_ENGINE_MODEL_LAYOUTS_RWKV_H_
#define FERMATA_ENGINE_MODEL_LAYOUTS_RWKV_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/model/checkpoint.h"
#include "engine/model/layout.h"
#include "engine/model/layouts/reading.h"
#include "nlohmann/json.hpp"

namespace fermata {

// What the layouts of RWKV share.

// BlinkDL divides a head's output by 8 before he normalises it with an epsilon of 1e-5: 64e-5, in
// every version and whatever the width of a head.
inline constexpr double kRwkvHeadNormEps = 64e-5;

// RWKV-4 and -5 store the share of a token in the mix with the one before, later versions the share
// of the one before, which is the canonical one.
float OneMinus(float x);
// RWKV-5.0 stores the logarithm of its bonus.
float ExpOf(float x);

// The row of a tensor that is stored in any shape and as other numbers.
constexpr StoredName Converted(std::string_view canonical, std::string_view stored,
                               float (*value)(float)) {
  return {canonical, stored, StoredName::How::kReshaped, 0, 1, false, value};
}

// Sets num_heads, use_gate and decay_per_channel of RWKV-5, which show in the tensors of the module
// `att` alone, for so many channels of attention.
absl::Status ReadRwkv5Shapes(const Checkpoint& checkpoint, const std::string& att, int64_t channels,
                             nlohmann::json& made);
// Sets the ranks of RWKV-6.
absl::Status ReadRwkv6Ranks(const Checkpoint& checkpoint, const std::string& att,
                            nlohmann::json& made);

// The expand_k or expand_v with which `hidden` channels become `width`.
double Expand(int64_t hidden, int64_t width);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUTS_RWKV_H_
