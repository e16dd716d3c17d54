#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_library.h"
#include "engine/kernels/matmul_rows.h"

#define HWY_WANT_AVX3_DL
#define FERMATA_BF16_PRODUCTS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/matmul_bf16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
FERMATA_DOT_PRODUCTS
namespace fermata {
namespace HWY_NAMESPACE {

// Pairs of bfloat16, the number of the even place in the lower half of a word. A float32 is one with
// 16 more bits behind it.
struct Bf16Words {
  struct Pair {
    Vec even;
    Vec odd;
  };
  using Sum = Vec;
  using Weights = Pair;
  static HWY_INLINE Sum ZeroSum() { return hn::Zero(kTag); }
  static HWY_INLINE Pair SplitWeights(IntVec words) {
    const IntVec upper = hn::Set(kIntTag, static_cast<int32_t>(0xffff0000));
    return {hn::BitCast(kTag, hn::ShiftLeft<16>(words)), hn::BitCast(kTag, hn::And(words, upper))};
  }
  static HWY_INLINE Pair SplitFactor(IntVec words) { return SplitWeights(words); }
  static HWY_INLINE Sum Dot(Sum sum, const Pair& factor, const Pair& weights) {
    // The order of the processor's dot product.
    return hn::MulAdd(factor.even, weights.even, hn::MulAdd(factor.odd, weights.odd, sum));
  }
  static HWY_INLINE Vec Finish(Sum sum, const LinesTask&, int64_t, int64_t) { return sum; }
};

void MultiplyBf16(const LinesTask& task) { MultiplyLines<Bf16Words>(task); }

#if HWY_TARGET == HWY_AVX3_DL
// The target does not promise these: HasBf16Products does.
struct Bf16DotWords {
  using Sum = Vec;
  using Weights = IntVec;
  static HWY_INLINE Sum ZeroSum() { return hn::Zero(kTag); }
  static HWY_INLINE Weights SplitWeights(IntVec words) { return words; }
  static HWY_INLINE Weights SplitFactor(IntVec words) { return words; }
  static HWY_INLINE Sum Dot(Sum sum, Weights factor, Weights weights) {
    return Vec{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(factor.raw),
                                reinterpret_cast<__m512bh>(weights.raw))};
  }
  static HWY_INLINE Vec Finish(Sum sum, const LinesTask&, int64_t, int64_t) { return sum; }
};

void MultiplyBf16Dots(const LinesTask& task) { MultiplyLines<Bf16DotWords>(task); }
#else
void MultiplyBf16Dots(const LinesTask& task) { MultiplyBf16(task); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {
namespace {

HWY_EXPORT(MultiplyBf16);
HWY_EXPORT(MultiplyBf16Dots);

constexpr int64_t kWordNumbers = 2;
// What making a number narrow is worth in multiply-adds, measured.
constexpr int64_t kRoundWork = 6;
// Of in_features in one product of oneDNN.
constexpr int64_t kLibraryFeatures = 1024;

// Weights [out_features, in_features] of a row-major matrix of `stride` columns, in lines.
class Bf16Weights {
 public:
  Bf16Weights(const float* weights, int64_t out_features, int64_t in_features, int64_t stride)
      : padded_(RoundUp(in_features, kWordNumbers * kLineMultiple)),
        panels_(RoundUp(out_features, kLineColumns) / kLineColumns),
        packed_(panels_ * panel_bytes()) {
    ParallelFor(panels_, kLineColumns * in_features * 4, [&](int64_t begin, int64_t end) {
      std::vector<uint16_t> halves(padded_);
      for (int64_t column = begin * kLineColumns;
           column < std::min(end * kLineColumns, out_features); ++column) {
        RoundToBf16(weights + column * stride, in_features, halves.data());
        uint8_t* word = panel(column / kLineColumns) + column % kLineColumns * kWordBytes;
        for (int64_t k = 0; k < padded_; k += kWordNumbers, word += kLineBytes) {
          std::memcpy(word, &halves[k], kWordBytes);
        }
      }
    });
  }

  int64_t padded() const { return padded_; }  // in_features, to whole lines.
  int64_t panels() const { return panels_; }
  uint8_t* panel(int64_t index) const {
    return static_cast<uint8_t*>(packed_.data()) + index * panel_bytes();
  }
  const HugeBuffer& packed() const { return packed_; }

 private:
  int64_t panel_bytes() const { return padded_ / kWordNumbers * kLineBytes; }

  int64_t padded_;
  int64_t panels_;
  HugeBuffer packed_;
};

// Rows of `count` numbers, `stride` apart, to rows of `padded`, filled up with zeros.
void RoundRows(const float* x, int64_t rows, int64_t stride, int64_t count, int64_t padded,
               uint16_t* out) {
  ParallelFor(rows, count * kRoundWork, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RoundToBf16(x + row * stride, count, out + row * padded);
      std::fill(out + row * padded + count, out + (row + 1) * padded, 0);
    }
  });
}

class Bf16Lines : public MatmulBackend {
 public:
  Bf16Lines(const float* weights, int64_t out_features, int64_t in_features, bool use_dots)
      : MatmulBackend(out_features, in_features),
        use_dots_(use_dots),
        weights_(weights, out_features, in_features, in_features) {}

  int64_t bytes() const override { return static_cast<int64_t>(weights_.packed().bytes()); }
  RowFormat row_format() const override { return RowFormat::kBf16; }
  Way WayFor(int64_t) const override { return Way::kPieces; }
  // A float32 product reads twice the bytes.
  int64_t piece_work() const override { return kPieceColumns * in_features_ / 2; }

  void MultiplyPiece(const NarrowRows& x, const Piece& piece, float* y) const override {
    const LinesTask task = {.x = x.numbers(piece.row),
                            .rows = piece.rows,
                            .x_stride = x.stride(),
                            .panel = weights_.panel(piece.column / kLineColumns),
                            .lines = (in_features_ + kWordNumbers - 1) / kWordNumbers,
                            .y = y + piece.row * out_features_ + piece.column,
                            .y_stride = out_features_,
                            .columns = std::min(kLineColumns, out_features_ - piece.column)};
    if (use_dots_) {
      HWY_DYNAMIC_DISPATCH(MultiplyBf16Dots)(task);
    } else {
      HWY_DYNAMIC_DISPATCH(MultiplyBf16)(task);
    }
  }

 private:
  bool use_dots_;
  Bf16Weights weights_;
};

class Bf16OneDnn : public MatmulBackend {
 public:
  struct Part {
    int64_t begin;  // Of in_features.
    int64_t count;
    const LibraryProduct* library;
  };

  Bf16OneDnn(const float* weights, int64_t out_features, int64_t in_features,
             std::vector<Part> parts)
      : MatmulBackend(out_features, in_features), parts_(std::move(parts)) {
    for (const Part& part : parts_) {
      weights_.emplace_back(weights + part.begin, out_features, part.count, in_features);
    }
  }

  // Null where the library has no product for one of them.
  static std::vector<Part> Parts(int64_t out_features, int64_t in_features) {
    std::vector<Part> parts;
    for (int64_t begin = 0; begin < in_features; begin += kLibraryFeatures) {
      const int64_t count = std::min(kLibraryFeatures, in_features - begin);
      const int64_t padded = RoundUp(count, kWordNumbers * kLineMultiple);
      const auto* library = LibraryProduct::For({LibraryTypes::kBf16, out_features, padded});
      const size_t bytes = RoundUp(out_features, kLineColumns) * padded * sizeof(uint16_t);
      if (library == nullptr || library->packed_bytes() != bytes) return {};
      parts.push_back({begin, count, library});
    }
    return parts;
  }

  int64_t bytes() const override {
    int64_t bytes = 0;
    for (const Bf16Weights& weights : weights_) {
      bytes += static_cast<int64_t>(weights.packed().bytes());
    }
    return bytes;
  }

  Way WayFor(int64_t) const override { return Way::kWhole; }
  // Makes narrow by itself, as each part is a dense matrix of its own.
  void MultiplyWhole(const NarrowRows& x, float* y) const override {
    const int64_t rows = x.rows();
    const int64_t count = rows * out_features_;
    const int64_t part_count = parts_.size() == 1 ? 0 : RoundUp(count, 16);
    thread_local AlignedBuffer<float> scratch;
    const size_t floats = part_count + rows * weights_[0].padded() / 2;
    if (scratch.size() < floats) scratch = AlignedBuffer<float>(floats);
    float* part_y = scratch.data();
    auto* halves = reinterpret_cast<uint16_t*>(part_y + part_count);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      RoundRows(x.floats(0) + part.begin, rows, in_features_, part.count, weights_[i].padded(),
                halves);
      part.library->Multiply(halves, rows, weights_[i].packed().data(), i == 0 ? y : part_y);
      if (i == 0) continue;
      ParallelFor(rows, out_features_, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin * out_features_; j < end * out_features_; ++j) y[j] += part_y[j];
      });
    }
  }

 private:
  std::vector<Part> parts_;
  std::vector<Bf16Weights> weights_;  // Of each part.
};

}  // namespace

bool HasBf16Products() { return __builtin_cpu_supports("avx512bf16") != 0; }

std::unique_ptr<MatmulBackend> PackBf16Lines(const float* weights, int64_t out_features,
                                             int64_t in_features, bool use_dot_products) {
  return std::make_unique<Bf16Lines>(weights, out_features, in_features,
                                     use_dot_products && HasBf16Products());
}

std::unique_ptr<MatmulBackend> PackBf16OneDnn(const float* weights, int64_t out_features,
                                              int64_t in_features) {
  auto parts = Bf16OneDnn::Parts(out_features, in_features);
  if (parts.empty()) return nullptr;
  return std::make_unique<Bf16OneDnn>(weights, out_features, in_features, std::move(parts));
}

}  // namespace fermata
#endif  // HWY_ONCE
