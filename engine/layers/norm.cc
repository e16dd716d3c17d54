#include "engine/layers/norm.h"

#include "engine/base/status.h"
#include "engine/kernels/norm.h"

namespace fermata {
namespace {

// The weights of group `group`, or null where there are none.
const float* Of(const AlignedBuffer<float>& values, int64_t group, int64_t dim) {
  return values.empty() ? nullptr : values.data() + group * dim;
}

}  // namespace

absl::StatusOr<Norm> Norm::Read(const WeightScope& weights, std::string_view name,
                                const NormOptions& options) {
  const WeightScope module = weights.Child(name);
  const int64_t width = options.groups * options.dim;
  Norm norm;
  norm.options_ = options;
  if (options.weight) {
    FERMATA_ASSIGN_OR_RETURN(norm.weight_, module.Read("weight", {width}));
  }
  if (options.bias) {
    FERMATA_ASSIGN_OR_RETURN(norm.bias_, module.Read("bias", {width}));
  }
  return norm;
}

void Norm::Apply(const float* x, int64_t rows, float* out) const {
  const auto [kind, dim, groups, eps, has_weight, has_bias] = options_;
  const int64_t together = groups == 1 ? rows : 1;  // Rows that share their weights.
  for (int64_t at = 0; at < rows * groups; at += together) {
    const int64_t group = groups == 1 ? 0 : at % groups;
    const float* weight = Of(weight_, group, dim);
    if (kind == NormOptions::Kind::kRms) {
      RmsNorm(x + at * dim, weight, together, dim, eps, out + at * dim);
    } else {
      LayerNorm(x + at * dim, weight, Of(bias_, group, dim), together, dim, eps, out + at * dim);
    }
  }
}

}  // namespace fermata
