#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/parallel.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul_backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/matmul_panels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

#ifndef FERMATA_ENGINE_KERNELS_MATMUL_PANELS_ONCE
#define FERMATA_ENGINE_KERNELS_MATMUL_PANELS_ONCE
namespace fermata {

// Output features of one panel. Within a panel the weights lie [in_features, kPanelColumns], so
// that one step along in_features reads one contiguous line for all of them.
inline constexpr int64_t kPanelColumns = 32;

// Some rows of one panel's product.
struct PanelTask {
  const float* x;  // [rows, in_features]
  int64_t rows;
  int64_t in_features;
  const float* panel;  // [in_features, kPanelColumns]
  float* y;            // [rows, stride], of which `columns` columns are this panel's.
  int64_t stride;
  int64_t columns;
};

}  // namespace fermata
#endif  // FERMATA_ENGINE_KERNELS_MATMUL_PANELS_ONCE

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

constexpr int kPanelVectors = kPanelColumns / kVectorLanes;
// As many rows at once as leave their accumulators in registers: 32 of them with AVX-512, else 16.
constexpr int kMaxRows = kPanelVectors == 2 ? 12 : kPanelVectors == 4 ? 3 : 1;

// The pragmas keep the accumulators in registers: an array that is indexed in a loop stays in
// memory.
template <int kRows>
HWY_NOINLINE void MultiplyRows(const PanelTask& task, int64_t row) {
  const float* x = task.x + row * task.in_features;
  Vec sums[kRows][kPanelVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(kTag);
  }
  const float* line = task.panel;
  for (int64_t k = 0; k < task.in_features; ++k, line += kPanelColumns) {
    Vec weights[kPanelVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kPanelVectors; ++v) weights[v] = hn::Load(kTag, line + v * kVectorLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec factor = hn::Set(kTag, x[r * task.in_features + k]);
#pragma GCC unroll 16
      for (int v = 0; v < kPanelVectors; ++v) {
        sums[r][v] = hn::MulAdd(factor, weights[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* y = task.y + (row + r) * task.stride;
    HWY_ALIGN float whole[kPanelColumns];
    float* to = task.columns == kPanelColumns ? y : whole;
#pragma GCC unroll 16
    for (int v = 0; v < kPanelVectors; ++v) hn::StoreU(sums[r][v], kTag, to + v * kVectorLanes);
    if (to == whole) std::memcpy(y, whole, task.columns * sizeof(float));
  }
}

// The last rows, fewer than or equal to kRows.
template <int kRows>
HWY_INLINE void MultiplyLastRows(const PanelTask& task, int64_t row) {
  if (task.rows - row == kRows) {
    MultiplyRows<kRows>(task, row);
  } else if constexpr (kRows > 1) {
    MultiplyLastRows<kRows - 1>(task, row);
  }
}

void MultiplyPanel(const PanelTask& task) {
  int64_t row = 0;
  for (; row + kMaxRows <= task.rows; row += kMaxRows) MultiplyRows<kMaxRows>(task, row);
  MultiplyLastRows<kMaxRows>(task, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {
namespace {

HWY_EXPORT(MultiplyPanel);

class Panels : public MatmulBackend {
 public:
  Panels(const float* weights, int64_t out_features, int64_t in_features)
      : MatmulBackend(out_features, in_features),
        panels_((out_features + kPanelColumns - 1) / kPanelColumns),
        packed_(panels_ * kPanelColumns * in_features * sizeof(float)) {
    ParallelFor(panels_, kPanelColumns * in_features * 4, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin * kPanelColumns;
           column < std::min(end * kPanelColumns, out_features); ++column) {
        float* to = panel(column / kPanelColumns) + column % kPanelColumns;
        const float* from = weights + column * in_features;
        for (int64_t k = 0; k < in_features; ++k) to[k * kPanelColumns] = from[k];
      }
    });
  }

  int64_t bytes() const override { return static_cast<int64_t>(packed_.bytes()); }

  Way WayFor(int64_t) const override { return Way::kPieces; }
  void MultiplyPiece(const NarrowRows& x, const Piece& piece, float* y) const override {
    const int64_t end = std::min(piece.column + kPieceColumns, out_features_);
    for (int64_t column = piece.column; column < end; column += kPanelColumns) {
      HWY_DYNAMIC_DISPATCH(MultiplyPanel)
      ({.x = x.floats(piece.row),
        .rows = piece.rows,
        .in_features = in_features_,
        .panel = panel(column / kPanelColumns),
        .y = y + piece.row * out_features_ + column,
        .stride = out_features_,
        .columns = std::min(kPanelColumns, end - column)});
    }
  }

 private:
  float* panel(int64_t index) const {
    return packed_.floats() + index * kPanelColumns * in_features_;
  }

  int64_t panels_;
  HugeBuffer packed_;
};

}  // namespace

std::unique_ptr<MatmulBackend> PackPanels(const float* weights, int64_t out_features,
                                          int64_t in_features) {
  return std::make_unique<Panels>(weights, out_features, in_features);
}

}  // namespace fermata
#endif  // HWY_ONCE
