#include "engine/kernels/matmul.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/kernels/matmul_backend.h"

namespace fermata {

struct PackedMatrix::Impl {
  int64_t out_features = 0;
  int64_t in_features = 0;
  std::unique_ptr<MatmulBackend> backend;
};

PackedMatrix::PackedMatrix() = default;

PackedMatrix::PackedMatrix(const float* weights, int64_t out_features, int64_t in_features)
    : impl_(std::make_unique<Impl>()) {
  impl_->out_features = out_features;
  impl_->in_features = in_features;
  impl_->backend = PackOneDnn(weights, out_features, in_features);
  if (impl_->backend == nullptr) impl_->backend = PackPanels(weights, out_features, in_features);
}

PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

void PackedMatrix::Multiply(const float* x, int64_t rows, float* y) const {
  if (impl_ != nullptr && rows > 0) impl_->backend->Multiply(x, rows, y);
}

int64_t PackedMatrix::out_features() const { return impl_ == nullptr ? 0 : impl_->out_features; }
int64_t PackedMatrix::in_features() const { return impl_ == nullptr ? 0 : impl_->in_features; }
int64_t PackedMatrix::bytes() const { return impl_ == nullptr ? 0 : impl_->backend->bytes(); }

absl::StatusOr<PackedMatrix> ReadMatrix(const WeightScope& weights, std::string_view name,
                                        int64_t out_features, int64_t in_features) {
  FERMATA_ASSIGN_OR_RETURN(const AlignedBuffer<float> values,
                           weights.Read(name, {out_features, in_features}));
  return PackedMatrix(values.data(), out_features, in_features);
}

}  // namespace fermata
