#include "engine/mixers/rwkv_parts.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/token_shift.h"

namespace fermata {

absl::StatusOr<MixedLinear> MixedLinear::Read(const WeightScope& weights, std::string_view mu,
                                              std::string_view linear, int64_t out, int64_t in) {
  MixedLinear mixed;
  FERMATA_ASSIGN_OR_RETURN(mixed.mu_, weights.Read(mu, {in}));
  FERMATA_ASSIGN_OR_RETURN(mixed.linear_, Linear::Read(weights, linear, out, in));
  return mixed;
}

float* MixedLinear::Apply(const ShiftedRows& shifted, Arena& arena) const {
  const auto [x, delta, rows] = shifted;
  float* y = arena.Floats(rows * linear_.out_features());
  const Arena::Scope scope(arena);
  linear_.Apply(Interpolate(x, delta, mu_.data(), rows, linear_.in_features(), arena), rows, y);
  return y;
}

void MultiplyRows(std::span<const float> v, float* y, int64_t rows) {
  const auto dim = static_cast<int64_t>(v.size());
  for (int64_t row = 0; row < rows; ++row) Multiply(v.data(), y + row * dim, dim);
}

void AddToRows(std::span<const float> v, float* y, int64_t rows) {
  const auto dim = static_cast<int64_t>(v.size());
  for (int64_t row = 0; row < rows; ++row) Add(v.data(), y + row * dim, dim);
}

absl::StatusOr<int64_t> DivideIntoHeads(const ConfigReader& config, int64_t width,
                                        int64_t num_heads) {
  if (width < num_heads || width % num_heads != 0) {
    return config.Error("num_heads",
                        absl::StrCat(num_heads, " heads do not divide ", width, " channels"));
  }
  return width / num_heads;
}

}  // namespace fermata
