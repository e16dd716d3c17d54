#ifndef FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_
#define FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"

namespace fermata {

// What the mixers of all versions of RWKV share.

inline constexpr int64_t kMaxRwkvSize = int64_t{1} << 24;

// The rows of a batch, [rows, dim] each, beside what TokenShift makes of them.
struct ShiftedRows {
  const float* x = nullptr;
  const float* delta = nullptr;  // The token before, less this one.
  int64_t rows = 0;
};

// The width of one of `num_heads` heads that together have `width` channels. INVALID_ARGUMENT that
// names the field `num_heads` when they do not divide them.
absl::StatusOr<int64_t> DivideIntoHeads(const ConfigReader& config, int64_t width,
                                        int64_t num_heads);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_
