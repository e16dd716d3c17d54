#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/matmul.h"

namespace fermata {
namespace {

// φ(x) = max(W x, 0) (Kasai et al. 2021, "Finetuning Pretrained Transformers into RNNs").
class T2r : public SizedMap {
 public:
  explicit T2r(PackedMatrix weights)
      : SizedMap(weights.in_features(), weights.out_features(), true),
        weights_(std::move(weights)) {}

  void Apply(const float* x, int64_t rows, float* out) const override {
    weights_.Multiply(x, rows, out);
    Relu(out, out, rows * feature_dim());
  }

 private:
  PackedMatrix weights_;
};

}  // namespace

MapOrError CreateT2r(const FeatureMapOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(
      PackedMatrix weights,
      ReadMatrix(options.weights.Child("layer"), "weight", options.head_dim, options.head_dim));
  return std::make_unique<T2r>(std::move(weights));
}

}  // namespace fermata
