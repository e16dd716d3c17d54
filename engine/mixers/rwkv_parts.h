#ifndef FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_
#define FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/arena.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"
#include "engine/layers/linear.h"

namespace fermata {

// What the mixers of all versions of RWKV share.

inline constexpr int64_t kMaxRwkvSize = int64_t{1} << 24;

// The rows of a batch, [rows, dim] each, beside what TokenShift makes of them.
struct ShiftedRows {
  const float* x = nullptr;
  const float* delta = nullptr;  // The token before, less this one.
  int64_t rows = 0;
};

// W (x + μ ∘ δ): a product of the token mixed with the one before. Immutable and thread-safe.
class MixedLinear {
 public:
  // Reads `linear`.weight [out, in] and the tensor `mu` [in]. This μ is the share of the token
  // before, as RWKV-6 and -7 have it; RWKV-4 and -5 speak of the other share, 1 - μ.
  static absl::StatusOr<MixedLinear> Read(const WeightScope& weights, std::string_view mu,
                                          std::string_view linear, int64_t out, int64_t in);

  // [rows, out], in scratch memory.
  float* Apply(const ShiftedRows& shifted, Arena& arena) const;

 private:
  AlignedBuffer<float> mu_;
  Linear linear_;
};

// Each row of y [rows, dim] times, or plus, the vector v [dim].
void MultiplyRows(std::span<const float> v, float* y, int64_t rows);
void AddToRows(std::span<const float> v, float* y, int64_t rows);

// The width of one of `num_heads` heads that together have `width` channels. INVALID_ARGUMENT that
// names the field `num_heads` when they do not divide them.
absl::StatusOr<int64_t> DivideIntoHeads(const ConfigReader& config, int64_t width,
                                        int64_t num_heads);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MIXERS_RWKV_PARTS_H_
