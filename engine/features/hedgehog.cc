#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/norm.h"

namespace fermata {
namespace {

// φ(x) = softmax([2y, -2y]) with y = W x + b (Zhang et al. 2024, "The Hedgehog & the Porcupine").
class Hedgehog : public SizedMap {
 public:
  // Both come doubled, as y is always used.
  Hedgehog(PackedMatrix doubled_weights, AlignedBuffer<float> doubled_bias)
      : SizedMap(doubled_weights.in_features(), 2 * doubled_weights.in_features(), true),
        weights_(std::move(doubled_weights)),
        bias_(std::move(doubled_bias)) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    AlignedBuffer<float> doubled(rows * head_dim());
    weights_.Multiply(x, rows, doubled.data());
    for (int64_t row = 0; row < rows; ++row) {
      float* y = doubled.data() + row * head_dim();
      float* positive = out + row * feature_dim();
      Add(bias_.data(), y, head_dim());
      Scale(1.0f, y, positive, head_dim());
      Scale(-1.0f, y, positive + head_dim(), head_dim());
    }
    Softmax(out, rows, feature_dim());
  }

 private:
  PackedMatrix weights_;
  AlignedBuffer<float> bias_;
};

}  // namespace

MapOrError CreateHedgehog(const FeatureMapOptions& options) {
  const int64_t dim = options.head_dim;
  const WeightScope layer = options.weights.Child("layer");
  FERMATA_ASSIGN_OR_RETURN(AlignedBuffer<float> weights, layer.Read("weight", {dim, dim}));
  FERMATA_ASSIGN_OR_RETURN(AlignedBuffer<float> bias, layer.Read("bias", {dim}));
  // Doubling is exact, so it may as well be done once.
  Scale(2.0f, weights.data(), dim * dim);
  Scale(2.0f, bias.data(), dim);
  return std::make_unique<Hedgehog>(PackedMatrix(weights.data(), dim, dim), std::move(bias));
}

}  // namespace fermata
