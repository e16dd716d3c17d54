#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_rows.h"
#include "hwy/cache_control.h"

#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/matmul_groups.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/matmul_tiles-inl.h"

#ifndef FERMATA_ENGINE_KERNELS_MATMUL_GROUPS_ONCE
#define FERMATA_ENGINE_KERNELS_MATMUL_GROUPS_ONCE
namespace fermata {

// Panels here are narrower than those of lines, so that a tile of two vectors reads all of a line: a
// tile that reads every other piece of its memory waits a third longer.
//
// A panel holds its groups of 32 along in_features one after the other: the lines of a group's
// eight steps, of unsigned quants (each weight is scale · (quant - offset)), then a binary16 scale
// for each column. Steps come in pairs, 0 and 4 to 3 and 7. Of 8 bits a pair is two lines, of 4 bits
// it is one, whose bytes hold the first step's quants in their lower halves.
inline constexpr int64_t kGroupColumns = 32;
inline constexpr int64_t kGroupLineBytes = kGroupColumns * kWordBytes;
inline constexpr int64_t kGroupScaleBytes = kGroupColumns * 2;
constexpr int64_t GroupLines(int bits) { return bits; }
constexpr int64_t GroupBytes(int bits) {
  return GroupLines(bits) * kGroupLineBytes + kGroupScaleBytes;
}
constexpr int32_t QuantOffset(int bits) { return 1 << (bits - 1); }

// Some rows times the columns of one panel.
struct GroupsTask {
  const int8_t* x;        // [rows, groups, kGroup]
  const float* x_scales;  // [rows, groups]
  const int32_t* x_sums;  // [rows, groups]
  int64_t rows;
  int64_t groups;
  const uint8_t* panel;
  float* y;  // [rows, y_stride], of which `columns` columns are this panel's.
  int64_t y_stride;
  int64_t columns;
  float scale;  // Of all weights.
};

}  // namespace fermata
#endif  // FERMATA_ENGINE_KERNELS_MATMUL_GROUPS_ONCE

HWY_BEFORE_NAMESPACE();
FERMATA_DOT_PRODUCTS
namespace fermata {
namespace HWY_NAMESPACE {

// As kMostRows and VectorsAtOnce, with two accumulators for each element of y.
constexpr int kMostGroupRows = kVectorLanes == 16 ? 6 : 2;
constexpr int GroupVectors(int rows) { return kVectorLanes < 16 && rows == 1 ? 4 : 2; }

// The words of a pair of steps.
template <int kBits>
HWY_INLINE void LoadPair(const uint8_t* group, int64_t pair, ByteWords::Unsigned& near,
                         ByteWords::Unsigned& far) {
  if constexpr (kBits == 8) {
    near = ByteWords::SplitUnsigned(LoadWords(group + 2 * pair * kGroupLineBytes));
    far = ByteWords::SplitUnsigned(LoadWords(group + (2 * pair + 1) * kGroupLineBytes));
  } else {
    const hn::RebindToUnsigned<IntTag> tag;
    const IntVec mask = hn::Set(kIntTag, 0x0f0f0f0f);
    const IntVec words = LoadWords(group + pair * kGroupLineBytes);
    const IntVec upper = hn::BitCast(kIntTag, hn::ShiftRight<4>(hn::BitCast(tag, words)));
    near = ByteWords::SplitUnsigned(hn::And(words, mask));
    far = ByteWords::SplitUnsigned(hn::And(upper, mask));
  }
}

HWY_INLINE Vec LoadScales(const uint8_t* scales) {
  const hn::Rebind<hwy::float16_t, Tag> tag;
  return hn::PromoteTo(kTag, hn::LoadU(tag, reinterpret_cast<const hwy::float16_t*>(scales)));
}

// How many groups before their products the first rows' weights are asked for. With one or two rows
// the processor does so by itself in time (asking takes a sixth longer); with more, whose products
// take longer, it is late (not asking does). Of 8 bits not measured.
template <int kBits, int kRows>
constexpr int64_t kGroupsAhead = kBits == 4 && kRows > 2 ? 2 : 0;

template <int kBits, int kRows>
HWY_NOINLINE void MultiplyGroupTile(const GroupsTask& task, int64_t row, int64_t column) {
  constexpr int kVectors = GroupVectors(kRows);
  constexpr int64_t kVectorBytes = kVectorLanes * kWordBytes;
  const int8_t* x = task.x + row * task.groups * kGroup;
  const float* x_scales = task.x_scales + row * task.groups;
  const int32_t* x_sums = task.x_sums + row * task.groups;
  const uint8_t* group = task.panel;
  Vec totals[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) totals[r][v] = hn::Zero(kTag);
  }
  for (int64_t g = 0; g < task.groups; ++g, group += GroupBytes(kBits)) {
    // Exact sums of x · (quant - offset).
    IntSum sums[kRows][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const IntSum start =
          ToSum(hn::Set(kIntTag, -QuantOffset(kBits) * x_sums[r * task.groups + g]));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = start;
    }
    if (kGroupsAhead < kBits, kRows >> 0 && row == 0) {
      const uint8_t* ahead = group + kGroupsAhead<kBits, kRows> * GroupBytes(kBits);
      for (int64_t at = 0; at < GroupBytes(kBits); at += kBufferAlignment) {
        hwy::Prefetch(ahead + at);
      }
    }
#pragma GCC unroll 4
    for (int64_t pair = 0; pair < 4; ++pair) {
      ByteWords::Unsigned near[kVectors];
      ByteWords::Unsigned far[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        LoadPair<kBits>(group + column * kWordBytes + v * kVectorBytes, pair, near[v], far[v]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto* words = reinterpret_cast<const uint8_t*>(x + (r * task.groups + g) * kGroup) +
                            pair * kWordBytes;
        const auto near_x = ByteWords::SplitSigned(BroadcastWord(words));
        const auto far_x = ByteWords::SplitSigned(BroadcastWord(words + kGroup / 2));
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = ByteWords::Dot(sums[r][v], near[v], near_x);
          sums[r][v] = ByteWords::Dot(sums[r][v], far[v], far_x);
        }
      }
    }
    const uint8_t* scales = group + GroupLines(kBits) * kGroupLineBytes + column * 2;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const Vec scale = LoadScales(scales + v * kVectorLanes * 2);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        // In this order no finite scales make 0 · ∞.
        totals[r][v] = hn::MulAdd(hn::Mul(hn::ConvertTo(kTag, ToVector(sums[r][v])), scale),
                                  hn::Set(kTag, x_scales[r * task.groups + g]), totals[r][v]);
      }
    }
  }
  const LinesTask result = {.y = task.y, .y_stride = task.y_stride, .columns = task.columns};
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (Vec& total : totals[r]) total = hn::Mul(total, hn::Set(kTag, task.scale));
    StoreTile(totals[r], result, row + r, column);
  }
}

template <int kBits, int kRows>
HWY_INLINE void MultiplyGroupRows(const GroupsTask& task, int64_t row) {
  constexpr int64_t kColumns = GroupVectors(kRows) * kVectorLanes;
  for (int64_t column = 0; column < task.columns; column += kColumns) {
    MultiplyGroupTile<kBits, kRows>(task, row, column);
  }
}

// The last rows, fewer than or equal to kRows.
template <int kBits, int kRows>
HWY_INLINE void MultiplyLastGroupRows(const GroupsTask& task, int64_t row) {
  if (task.rows - row == kRows) {
    MultiplyGroupRows<kBits, kRows>(task, row);
  } else if constexpr (kRows > 1) {
    MultiplyLastGroupRows<kBits, kRows - 1>(task, row);
  }
}

template <int kBits>
HWY_INLINE void MultiplyGroups(const GroupsTask& task) {
  int64_t row = 0;
  for (; row + kMostGroupRows <= task.rows; row += kMostGroupRows) {
    MultiplyGroupRows<kBits, kMostGroupRows>(task, row);
  }
  MultiplyLastGroupRows<kBits, kMostGroupRows>(task, row);
}

void MultiplyGroups4(const GroupsTask& task) { MultiplyGroups<4>(task); }
void MultiplyGroups8(const GroupsTask& task) { MultiplyGroups<8>(task); }

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {
namespace {

HWY_EXPORT(MultiplyGroups4);
HWY_EXPORT(MultiplyGroups8);

// As in files.
template <int kBits>
struct Block {
  uint16_t scale;
  uint8_t quants[kGroup * kBits / 8];
};

// The bits of a binary16, `value` rounded to nearest even, and `value` made what they say. At most
// 2^15; magnitudes below 2^-14 are zero.
uint16_t RoundToHalf(float& value) {
  auto bits = std::bit_cast<uint32_t>(value);
  bits += 0xfff + (bits >> 13 & 1);
  bits &= ~0x1fffu;
  value = std::bit_cast<float>(bits);
  if (std::abs(value) < 0x1p-14f) {
    value = 0;
    return 0;
  }
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10)));
}

// How many steps the number of greatest magnitude lies from zero. Quants reach from -8 to 7 steps:
// fewer steps are wider and reach further on the other side. What loses least varies, so these are
// tried.
constexpr float kSteps[] = {-8.5f, -8.0f, -7.5f, -7.0f};

// Sums of errors that are added up side by side, as vectors do.
constexpr int64_t kErrorSums = 8;

// The quants of 4 bits that are nearest to x [kGroup], and the sum of their squared errors.
float RoundGroup(const float* x, float scale, float inverse, int32_t* quants) {
  for (int64_t i = 0; i < kGroup; ++i) {
    quants[i] = static_cast<int32_t>(std::min(std::max(x[i] * inverse + 8.5f, 0.0f), 15.0f));
  }
  float errors[kErrorSums] = {};
  for (int64_t i = 0; i < kGroup; i += kErrorSums) {
    for (int64_t j = 0; j < kErrorSums; ++j) {
      const float difference = x[i + j] - scale * static_cast<float>(quants[i + j] - 8);
      errors[j] += difference * difference;
    }
  }
  return std::accumulate(errors, errors + kErrorSums, 0.0f);
}

Block<4> QuantizeBlock(const float* weights, int64_t count, float unit) {
  float x[kGroup] = {};
  float extreme = 0;
  for (int64_t i = 0; i < count; ++i) {
    x[i] = weights[i] * unit;
    if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
  }
  Block<4> best = {};
  float least_error = INFINITY;
  for (const float steps : kSteps) {
    float scale = extreme / steps;
    const uint16_t scale_bits = RoundToHalf(scale);
    const float inverse = scale == 0 ? 0 : 1 / scale;
    int32_t quants[kGroup];
    const float error = RoundGroup(x, scale, inverse, quants);
    if (error >= least_error) continue;
    least_error = error;
    best.scale = scale_bits;
    for (int i = 0; i < kGroup / 2; ++i) {
      best.quants[i] = static_cast<uint8_t>(quants[i] | quants[i + kGroup / 2] << 4);
    }
  }
  return best;
}

// The power of two that makes the greatest magnitude of a matrix at most 2^17, so that no scale
// exceeds 2^15 and those of consequence keep all their bits.
float UnitFor(const float* weights, int64_t count) {
  float greatest = 0;
  for (int64_t i = 0; i < count; ++i) greatest = std::max(greatest, std::abs(weights[i]));
  if (greatest < kLeastMagnitude) return 1;
  int exponent;
  std::frexp(greatest, &exponent);
  return std::ldexp(1.0f, 17 - exponent);
}

template <int kBits>
class GroupsMatrix : public MatmulBackend {
 public:
  GroupsMatrix(int64_t out_features, int64_t in_features, float scale)
      : MatmulBackend(out_features, in_features),
        groups_(RoundUp(in_features, kGroup) / kGroup),
        panels_(RoundUp(out_features, kGroupColumns) / kGroupColumns),
        scale_(scale),
        packed_(panels_ * groups_ * GroupBytes(kBits)) {}

  // Fills the matrix with block_of(column, group) for each; several are asked for at once.
  template <typename BlockOf>
  void Fill(BlockOf block_of) {
    ParallelFor(panels_, kGroupColumns * in_features_ * 8, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin * kGroupColumns;
           column < std::min(end * kGroupColumns, out_features_); ++column) {
        for (int64_t g = 0; g < groups_; ++g) Place(block_of(column, g), column, g);
      }
    });
  }

  int64_t bytes() const override { return static_cast<int64_t>(packed_.bytes()); }
  RowFormat row_format() const override { return RowFormat::kGroups; }
  Way WayFor(int64_t) const override { return Way::kPieces; }
  // A float32 product does a quarter as much at a time, and reads four or eight times the bytes.
  int64_t piece_work() const override { return kPieceColumns * in_features_ / 4; }

  void MultiplyPiece(const NarrowRows& x, const Piece& piece, float* y) const override {
    const int64_t end = std::min(piece.column + kPieceColumns, out_features_);
    for (int64_t column = piece.column; column < end; column += kGroupColumns) {
      const GroupsTask task = {.x = reinterpret_cast<const int8_t*>(x.numbers(piece.row)),
                               .x_scales = x.scales(piece.row),
                               .x_sums = x.sums(piece.row),
                               .rows = piece.rows,
                               .groups = groups_,
                               .panel = panel(column / kGroupColumns),
                               .y = y + piece.row * out_features_ + column,
                               .y_stride = out_features_,
                               .columns = std::min(kGroupColumns, end - column),
                               .scale = scale_};
      if constexpr (kBits == 4) {
        HWY_DYNAMIC_DISPATCH(MultiplyGroups4)(task);
      } else {
        HWY_DYNAMIC_DISPATCH(MultiplyGroups8)(task);
      }
    }
  }

 private:
  uint8_t* panel(int64_t index) const {
    return static_cast<uint8_t*>(packed_.data()) + index * groups_ * GroupBytes(kBits);
  }

  void Place(const Block<kBits>& block, int64_t column, int64_t g) {
    uint8_t* group = panel(column / kGroupColumns) + g * GroupBytes(kBits);
    const int64_t place = column % kGroupColumns;
    for (int64_t word = 0; word < GroupLines(kBits); ++word) {
      const int64_t line = kBits == 8 ? word % 4 * 2 + word / 4 : word;
      std::memcpy(group + line * kGroupLineBytes + place * kWordBytes,
                  &block.quants[word * kWordBytes], kWordBytes);
    }
    std::memcpy(group + GroupLines(kBits) * kGroupLineBytes + place * 2, &block.scale, 2);
  }

  int64_t groups_;
  int64_t panels_;
  float scale_;  // Of all weights; a power of two.
  HugeBuffer packed_;
};

bool IsFiniteHalf(uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

template <int kBits>
std::unique_ptr<MatmulBackend> PackBlocksOf(std::span<const std::byte> bytes, int64_t out_features,
                                            int64_t in_features) {
  static_assert(sizeof(Block<kBits>) == 2 + kGroup * kBits / 8);
  const int64_t groups = in_features / kGroup;
  const auto load = [&](int64_t index) {
    Block<kBits> block;
    std::memcpy(&block, bytes.data() + index * sizeof(block), sizeof(block));
    return block;
  };
  for (int64_t i = 0; i < out_features * groups; ++i) {
    if (!IsFiniteHalf(load(i).scale)) return nullptr;
  }
  auto matrix = std::make_unique<GroupsMatrix<kBits>>(out_features, in_features, 1.0f);
  matrix->Fill([&](int64_t column, int64_t g) {
    Block<kBits> block = load(column * groups + g);
    if constexpr (kBits == 8) {
      for (uint8_t& quant : block.quants) quant ^= 128;  // Files have them signed.
    }
    return block;
  });
  return matrix;
}

}  // namespace

std::unique_ptr<MatmulBackend> PackInt4(const float* weights, int64_t out_features,
                                        int64_t in_features) {
  const float unit = UnitFor(weights, out_features * in_features);
  auto matrix = std::make_unique<GroupsMatrix<4>>(out_features, in_features, 1 / unit);
  matrix->Fill([&](int64_t column, int64_t g) {
    const int64_t begin = g * kGroup;
    return QuantizeBlock(weights + column * in_features + begin,
                         std::min(kGroup, in_features - begin), unit);
  });
  return matrix;
}

std::unique_ptr<MatmulBackend> PackBlocks(const WeightBlocks& blocks, int64_t out_features,
                                          int64_t in_features) {
  return blocks.type == BlockType::kQ4_0 ? PackBlocksOf<4>(blocks.bytes, out_features, in_features)
                                         : PackBlocksOf<8>(blocks.bytes, out_features, in_features);
}

}  // namespace fermata
#endif  // HWY_ONCE
