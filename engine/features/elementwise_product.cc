#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"

namespace fermata {
namespace {

struct Affine {
  PackedMatrix weights;
  AlignedBuffer<float> bias;

  void Apply(const float* x, int64_t rows, float* y) const {
    weights.Multiply(x, rows, y);
    const int64_t dim = weights.out_features();
    for (int64_t row = 0; row < rows; ++row) Add(bias.data(), y + row * dim, dim);
  }
};

absl::StatusOr<Affine> ReadAffine(const WeightScope& layer, int64_t dim) {
  Affine affine;
  FERMATA_ASSIGN_OR_RETURN(affine.weights, ReadMatrix(layer, "weight", dim, dim));
  FERMATA_ASSIGN_OR_RETURN(affine.bias, layer.Read("bias", {dim}));
  return affine;
}

// φ(x) = (W₁ x + b₁) ⊙ (W₂ x + b₂).
class ElementwiseProduct : public SizedMap {
 public:
  ElementwiseProduct(int64_t head_dim, Affine first, Affine second)
      : SizedMap(head_dim, head_dim, false), first_(std::move(first)), second_(std::move(second)) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    const int64_t count = rows * head_dim();
    AlignedBuffer<float> second(count);
    first_.Apply(x, rows, out);
    second_.Apply(x, rows, second.data());
    Multiply(second.data(), out, count);
  }

 private:
  Affine first_;
  Affine second_;
};

}  // namespace

MapOrError CreateElementwiseProduct(const FeatureMapOptions& options) {
  const WeightScope& weights = options.weights;
  FERMATA_ASSIGN_OR_RETURN(Affine first, ReadAffine(weights.Child("layer1"), options.head_dim));
  FERMATA_ASSIGN_OR_RETURN(Affine second, ReadAffine(weights.Child("layer2"), options.head_dim));
  return std::make_unique<ElementwiseProduct>(options.head_dim, std::move(first),
                                              std::move(second));
}

}  // namespace fermata
