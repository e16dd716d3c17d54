#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"
#include "engine/kernels/matmul_library.h"
#include "engine/kernels/matmul_rows.h"

#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/matmul_int8.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
FERMATA_DOT_PRODUCTS
namespace fermata {
namespace HWY_NAMESPACE {

HWY_INLINE Vec Scaled(IntVec sum, const LinesTask& task, int64_t row, int64_t column) {
  const IntVec exact = hn::Add(sum, hn::LoadU(kIntTag, task.column_offset + column));
  // In this order no finite scales make 0 · ∞.
  return hn::Mul(hn::Mul(hn::ConvertTo(kTag, exact), hn::LoadU(kTag, task.column_scales + column)),
                 hn::Set(kTag, task.row_scales[row]));
}

struct Int8Words {
  using Sum = IntSum;
  using Weights = ByteWords::Signed;
  static HWY_INLINE Sum ZeroSum() { return Sum{}; }
  static HWY_INLINE Weights SplitWeights(IntVec words) { return ByteWords::SplitSigned(words); }
  static HWY_INLINE ByteWords::Unsigned SplitFactor(IntVec words) {
    return ByteWords::SplitUnsigned(words);
  }
  static HWY_INLINE Sum Dot(Sum sum, const ByteWords::Unsigned& factor, const Weights& weights) {
    return ByteWords::Dot(sum, factor, weights);
  }
  static HWY_INLINE Vec Finish(Sum sum, const LinesTask& task, int64_t row, int64_t column) {
    return Scaled(ToVector(sum), task, row, column);
  }
};

void MultiplyInt8(const LinesTask& task) { MultiplyLines<Int8Words>(task); }

// Turns the sums of a panel that lie in task.y as integers into what MultiplyInt8 gives.
void ScaleInt8(const LinesTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    float* y = task.y + row * task.y_stride;
    for (int64_t column = 0; column < task.columns; column += kVectorLanes) {
      HWY_ALIGN int32_t sums[kVectorLanes] = {};
      std::memcpy(sums, y + column,
                  std::min(kVectorLanes, task.columns - column) * sizeof(int32_t));
      const Vec values[1] = {Scaled(hn::Load(kIntTag, sums), task, row, column)};
      StoreTile(values, task, row, column);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {
namespace {

HWY_EXPORT(MultiplyInt8);
HWY_EXPORT(ScaleInt8);

constexpr int64_t kWordNumbers = 4;
class Int8Matrix : public MatmulBackend {
 public:
  Int8Matrix(const float* weights, int64_t out_features, int64_t in_features, int64_t own_rows)
      : MatmulBackend(out_features, in_features),
        padded_(RoundUp(in_features, kWordNumbers * kLineMultiple)),
        panels_(RoundUp(out_features, kLineColumns) / kLineColumns),
        packed_(panels_ * panel_bytes()),
        scales_(panels_ * kLineColumns),
        offsets_(panels_ * kLineColumns) {
    if (own_rows != kAllRows) {
      library_ = LibraryProduct::For({LibraryTypes::kInt8, out_features, padded_});
    }
    if (library_ != nullptr && library_->packed_bytes() != packed_.bytes()) library_ = nullptr;
    if (library_ != nullptr) own_rows_ = own_rows;
    ParallelFor(panels_, kLineColumns * in_features * 8, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) PackPanel(weights, panel);
    });
  }

  int64_t bytes() const override {
    return static_cast<int64_t>(packed_.bytes() + scales_.bytes() + offsets_.bytes());
  }
  RowFormat row_format() const override { return RowFormat::kInt8; }
  Way WayFor(int64_t rows) const override {
    return rows > own_rows_ ? Way::kWholeThenPieces : Way::kPieces;
  }
  // A float32 product does a quarter as much at a time, and reads four times the bytes.
  int64_t piece_work() const override { return kPieceColumns * in_features_ / 4; }

  // Leaves sums that are integers in y.
  void MultiplyWhole(const NarrowRows& x, float* y) const override {
    library_->Multiply(x.numbers(0), x.rows(), packed_.data(), y);
  }

  void MultiplyPiece(const NarrowRows& x, const Piece& piece, float* y) const override {
    const int64_t index = piece.column / kLineColumns;
    const LinesTask task = {.x = x.numbers(piece.row),
                            .rows = piece.rows,
                            .x_stride = padded_,
                            .panel = panel(index),
                            .lines = (in_features_ + kWordNumbers - 1) / kWordNumbers,
                            .y = y + piece.row * out_features_ + piece.column,
                            .y_stride = out_features_,
                            .columns = std::min(kLineColumns, out_features_ - piece.column),
                            .row_scales = x.scales(piece.row),
                            .column_scales = &scales_[piece.column],
                            .column_offset = &offsets_[piece.column]};
    if (WayFor(x.rows()) == Way::kPieces) {
      HWY_DYNAMIC_DISPATCH(MultiplyInt8)(task);
    } else {
      HWY_DYNAMIC_DISPATCH(ScaleInt8)(task);
    }
  }

 private:
  int64_t panel_bytes() const { return padded_ * kLineColumns; }
  uint8_t* panel(int64_t index) const {
    return static_cast<uint8_t*>(packed_.data()) + index * panel_bytes();
  }

  void PackPanel(const float* weights, int64_t index) {
    std::vector<uint8_t> quants(padded_);
    const int64_t first = index * kLineColumns;
    const int64_t columns = std::min(kLineColumns, out_features_ - first);
    for (int64_t column = 0; column < columns; ++column) {
      scales_[first + column] = QuantizeRow(weights + (first + column) * in_features_, in_features_,
                                            padded_, quants.data());
      int64_t sum = 0;
      for (uint8_t& quant : quants) {
        quant ^= 128;  // Signed.
        sum += static_cast<int8_t>(quant);
      }
      offsets_[first + column] = static_cast<int32_t>(-128 * sum);
      uint8_t* word = panel(index) + column * kWordBytes;
      for (int64_t k = 0; k < padded_; k += kWordNumbers, word += kLineBytes) {
        std::memcpy(word, &quants[k], kWordBytes);
      }
    }
  }

  int64_t padded_;  // in_features, to whole lines.
  int64_t panels_;
  HugeBuffer packed_;
  AlignedBuffer<float> scales_;     // Of the output features.
  AlignedBuffer<int32_t> offsets_;  // -128 times the sum of an output feature's weights.
  const LibraryProduct* library_ = nullptr;
  int64_t own_rows_ = kAllRows;
};

}  // namespace

std::unique_ptr<MatmulBackend> PackInt8(const float* weights, int64_t out_features,
                                        int64_t in_features, int64_t own_rows) {
  return std::make_unique<Int8Matrix>(weights, out_features, in_features, own_rows);
}

}  // namespace fermata
#endif  // HWY_ONCE
