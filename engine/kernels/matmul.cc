#include "engine/kernels/matmul.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/status.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"
#include "engine/kernels/matmul_rows.h"

namespace fermata {
namespace {

// A matrix is held as float32 with a side of this or less, or with fewer numbers.
constexpr int64_t kNarrow = 128;
constexpr int64_t kFewNumbers = int64_t{1} << 15;

int64_t BlockBytes(BlockType type) { return 2 + (type == BlockType::kQ4_0 ? kGroup / 2 : kGroup); }

std::unique_ptr<MatmulBackend> Pack(const float* weights, int64_t out_features, int64_t in_features,
                                    WeightType type) {
  const int64_t own_rows = OwnRows(type);
  std::unique_ptr<MatmulBackend> library;
  switch (type) {
    case WeightType::kF32:
      // Narrow ones come in company, in which the library's threads would not work.
      if (own_rows == kNoRows && std::min(out_features, in_features) > kNarrow) {
        library = PackOneDnn(weights, out_features, in_features);
      }
      return library != nullptr ? std::move(library)
                                : PackPanels(weights, out_features, in_features);
    case WeightType::kBf16:
      if (own_rows == kNoRows) library = PackBf16OneDnn(weights, out_features, in_features);
      return library != nullptr ? std::move(library)
                                : PackBf16Lines(weights, out_features, in_features);
    case WeightType::kInt8:
      return PackInt8(weights, out_features, in_features, own_rows);
    case WeightType::kInt4:
      return PackInt4(weights, out_features, in_features);
  }
  std::abort();
}

}  // namespace

struct PackedMatrix::Impl {
  int64_t out_features = 0;
  int64_t in_features = 0;
  WeightType type = WeightType::kF32;
  std::unique_ptr<MatmulBackend> backend;
};

PackedMatrix::PackedMatrix() = default;

PackedMatrix::PackedMatrix(const float* weights, int64_t out_features, int64_t in_features,
                           WeightType type)
    : impl_(std::make_unique<Impl>()) {
  type = HeldWeightType(type, out_features, in_features);
  *impl_ = {out_features, in_features, type, Pack(weights, out_features, in_features, type)};
}

PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

absl::StatusOr<PackedMatrix> PackedMatrix::FromBlocks(const WeightBlocks& blocks,
                                                      int64_t out_features, int64_t in_features) {
  const bool is_q4 = blocks.type == BlockType::kQ4_0;
  const int64_t block_bytes = BlockBytes(blocks.type);
  if (in_features % kGroup != 0 || static_cast<int64_t>(blocks.bytes.size()) !=
                                       out_features * (in_features / kGroup) * block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(blocks.bytes.size(), " bytes of blocks of ",
                                                   block_bytes, " are no matrix of ", out_features,
                                                   " x ", in_features));
  }
  PackedMatrix matrix;
  matrix.impl_ = std::make_unique<Impl>();
  *matrix.impl_ = {out_features, in_features, is_q4 ? WeightType::kInt4 : WeightType::kInt8,
                   PackBlocks(blocks, out_features, in_features)};
  if (matrix.impl_->backend == nullptr) {
    return absl::InvalidArgumentError("a block's scale is NaN or infinite");
  }
  return matrix;
}

void PackedMatrix::Multiply(const float* x, int64_t rows, float* y, const Finish& finish) const {
  if (impl_ == nullptr) return;
  const BackendProduct product = {impl_->backend.get(), x, y, &finish};
  MultiplyAll({&product, 1}, rows);
}

void MultiplyAll(std::span<const Product> products, int64_t rows) {
  std::vector<BackendProduct> all;
  all.reserve(products.size());
  for (const Product& product : products) {
    if (product.matrix->impl_ == nullptr) continue;
    all.push_back({product.matrix->impl_->backend.get(), product.x, product.y, &product.finish});
  }
  MultiplyAll(all, rows);
}

int64_t PackedMatrix::out_features() const { return impl_ == nullptr ? 0 : impl_->out_features; }
int64_t PackedMatrix::in_features() const { return impl_ == nullptr ? 0 : impl_->in_features; }
WeightType PackedMatrix::type() const { return impl_ == nullptr ? WeightType::kF32 : impl_->type; }
int64_t PackedMatrix::bytes() const { return impl_ == nullptr ? 0 : impl_->backend->bytes(); }

WeightType HeldWeightType(WeightType type, int64_t out_features, int64_t in_features) {
  const bool narrow = std::min(out_features, in_features) <= kNarrow;
  // Groups of another length would waste what they save.
  const bool uneven = in_features % kGroup != 0;
  return narrow || uneven || out_features * in_features < kFewNumbers ? WeightType::kF32 : type;
}

WeightType AutoWeightType(std::string_view dtype) {
  if (dtype == "BF16" || dtype == "F16") {
    return HasBf16Products() ? WeightType::kBf16 : WeightType::kF32;
  }
  return dtype.starts_with('Q') ? WeightType::kInt8 : WeightType::kF32;
}

absl::StatusOr<PackedMatrix> ReadMatrix(const WeightScope& weights, std::string_view name,
                                        int64_t out_features, int64_t in_features) {
  FERMATA_ASSIGN_OR_RETURN(std::vector<PackedMatrix> matrices,
                           ReadMatrices(weights, name, {&out_features, 1}, in_features));
  return std::move(matrices[0]);
}

absl::StatusOr<std::vector<PackedMatrix>> ReadMatrices(const WeightScope& weights,
                                                       std::string_view name,
                                                       std::span<const int64_t> out_features,
                                                       int64_t in_features) {
  const int64_t total = std::accumulate(out_features.begin(), out_features.end(), int64_t{0});
  const auto stays_in_blocks = [&](int64_t out) {
    return HeldWeightType(WeightType::kInt8, out, in_features) != WeightType::kF32;
  };
  std::optional<WeightBlocks> blocks;
  if (std::ranges::any_of(out_features, stays_in_blocks)) {
    FERMATA_ASSIGN_OR_RETURN(blocks, weights.ReadBlocks(name, {total, in_features}));
  }
  AlignedBuffer<float> values;
  if (!blocks.has_value() || !std::ranges::all_of(out_features, stays_in_blocks)) {
    FERMATA_ASSIGN_OR_RETURN(values, weights.Read(name, {total, in_features}));
  }
  std::vector<PackedMatrix> matrices;
  int64_t begin = 0;
  for (const int64_t out : out_features) {
    if (blocks.has_value() && stays_in_blocks(out)) {
      const int64_t row_bytes = in_features / kGroup * BlockBytes(blocks->type);
      auto matrix = PackedMatrix::FromBlocks(
          {blocks->type, blocks->bytes.subspan(begin * row_bytes, out * row_bytes)}, out,
          in_features);
      if (!matrix.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", weights.prefix(),
                                                       std::string(name), ": ",
                                                       std::string(matrix.status().message())));
      }
      matrices.push_back(*std::move(matrix));
    } else {
      matrices.emplace_back(values.data() + begin * in_features, out, in_features,
                            weights.matrix_type(name));
    }
    begin += out;
  }
  return matrices;
}

}  // namespace fermata
