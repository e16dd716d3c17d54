// Products of a few rows with a panel of lines (matmul_lines.h), for each instruction set: with VNNI
// where the including file has defined HWY_WANT_AVX3_DL, and allowed to use bfloat16 products there
// where it has defined FERMATA_BF16_PRODUCTS.

#if defined(FERMATA_ENGINE_KERNELS_MATMUL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERMATA_ENGINE_KERNELS_MATMUL_TILES_INL_H_
#undef FERMATA_ENGINE_KERNELS_MATMUL_TILES_INL_H_
#else
#define FERMATA_ENGINE_KERNELS_MATMUL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/kernels/matmul_lines.h"
#include "engine/kernels/vector-inl.h"

// To follow each HWY_BEFORE_NAMESPACE. The target's name promises VNNI and the processor is asked
// for it, but the compiler is not told. (Nor may vectors be shorter than 512 bits here: for those it
// is told of AVX-VNNI, which such a processor need not have.)
#undef FERMATA_DOT_PRODUCTS
#if HWY_TARGET != HWY_AVX3_DL
#define FERMATA_DOT_PRODUCTS
#elif defined(FERMATA_BF16_PRODUCTS)
#define FERMATA_DOT_PRODUCTS _Pragma("GCC target(\"avx512vnni,avx512bf16\")")
#else
#define FERMATA_DOT_PRODUCTS _Pragma("GCC target(\"avx512vnni\")")
#endif

HWY_BEFORE_NAMESPACE();
FERMATA_DOT_PRODUCTS
namespace fermata {
namespace HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<Tag>;
using IntVec = hn::Vec<IntTag>;
inline constexpr IntTag kIntTag{};

// As many accumulators as there are registers for. Fewer rows take more of a line at once, which
// suits memory: those products wait for it.
constexpr int kMostRows = kVectorLanes == 16 ? 6 : 4;
constexpr int VectorsAtOnce(int rows) {
  return kVectorLanes == 16 ? 4 : rows == 1 ? 8 : rows == 2 ? 4 : 2;
}

HWY_INLINE IntVec LoadWords(const uint8_t* words) {
  return hn::LoadU(kIntTag, reinterpret_cast<const int32_t*>(words));
}

HWY_INLINE IntVec BroadcastWord(const uint8_t* word) {
  int32_t bits;
  std::memcpy(&bits, word, sizeof(bits));
  return hn::Set(kIntTag, bits);
}

// Words as the compiler's vector of int32. Accumulators must be these: it keeps an array in registers
// through a loop if it is read and written as one type, and the instructions' own type for integers
// of every width is another than that of their results.
typedef int32_t IntSum __attribute__((vector_size(kVectorLanes * sizeof(int32_t))));
HWY_INLINE IntVec ToVector(IntSum sum) {
  IntVec vector;
  std::memcpy(&vector, &sum, sizeof(sum));
  return vector;
}
HWY_INLINE IntSum ToSum(IntVec vector) {
  IntSum sum;
  std::memcpy(&sum, &vector, sizeof(sum));
  return sum;
}

// sum + u · s in each word, for four unsigned bytes u and four signed bytes s. Exact.
#if HWY_TARGET == HWY_AVX3_DL
struct ByteWords {
  using Unsigned = IntVec;
  using Signed = IntVec;
  static HWY_INLINE Unsigned SplitUnsigned(IntVec words) { return words; }
  static HWY_INLINE Signed SplitSigned(IntVec words) { return words; }
  static HWY_INLINE IntSum Dot(IntSum sum, Unsigned u, Signed s) {
    return ToSum(IntVec{_mm512_dpbusd_epi32(ToVector(sum).raw, u.raw, s.raw)});
  }
};
#elif HWY_TARGET == HWY_SCALAR
struct ByteWords {
  using Unsigned = IntVec;
  using Signed = IntVec;
  static HWY_INLINE Unsigned SplitUnsigned(IntVec words) { return words; }
  static HWY_INLINE Signed SplitSigned(IntVec words) { return words; }
  static HWY_INLINE IntSum Dot(IntSum sum, Unsigned u, Signed s) {
    const auto unsigned_words = static_cast<uint32_t>(hn::GetLane(u));
    const auto signed_words = static_cast<uint32_t>(hn::GetLane(s));
    int32_t total = sum[0];
    for (int shift = 0; shift < 32; shift += 8) {
      total += static_cast<int32_t>(unsigned_words >> shift & 255) *
               static_cast<int8_t>(signed_words >> shift);
    }
    return IntSum{total};
  }
};
#else
// Bytes of even and odd places, as 16-bit numbers, whose products are added in pairs.
struct ByteWords {
  using ShortTag = hn::Repartition<int16_t, IntTag>;
  struct Split {
    hn::Vec<ShortTag> even;
    hn::Vec<ShortTag> odd;
  };
  using Unsigned = Split;
  using Signed = Split;
  static HWY_INLINE Unsigned SplitUnsigned(IntVec words) {
    const hn::Repartition<uint16_t, IntTag> tag;
    const auto shorts = hn::BitCast(tag, words);
    return {hn::BitCast(ShortTag(), hn::And(shorts, hn::Set(tag, 255))),
            hn::BitCast(ShortTag(), hn::ShiftRight<8>(shorts))};
  }
  static HWY_INLINE Signed SplitSigned(IntVec words) {
    const auto shorts = hn::BitCast(ShortTag(), words);
    return {hn::ShiftRight<8>(hn::ShiftLeft<8>(shorts)), hn::ShiftRight<8>(shorts)};
  }
  // On x86 all goes into the first of the two sums that the operation may spread its result over.
  static HWY_INLINE IntSum Dot(IntSum sum, const Unsigned& u, const Signed& s) {
    IntVec other = hn::Zero(kIntTag);
    const IntVec even =
        hn::ReorderWidenMulAccumulate(kIntTag, u.even, s.even, ToVector(sum), other);
    return ToSum(hn::ReorderWidenMulAccumulate(kIntTag, u.odd, s.odd, even, other));
  }
};
#endif

// Puts a tile's vectors of one row where they belong, of which the panel's last columns may not.
template <int kVectors>
HWY_INLINE void StoreTile(const Vec (&values)[kVectors], const LinesTask& task, int64_t row,
                          int64_t column) {
  float* y = task.y + row * task.y_stride + column;
  if (column + kVectors * kVectorLanes <= task.columns) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(values[v], kTag, y + v * kVectorLanes);
    return;
  }
  HWY_ALIGN float whole[kVectors * kVectorLanes];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) hn::Store(values[v], kTag, whole + v * kVectorLanes);
  if (column < task.columns) std::memcpy(y, whole, (task.columns - column) * sizeof(float));
}

// `Words` says how words are multiplied and what becomes of their sums. One accumulator for each
// element of y runs over the lines in order. The pragmas keep the accumulators in registers: an
// array that is indexed in a loop stays in memory.
template <typename Words, int kRows>
HWY_NOINLINE void MultiplyTile(const LinesTask& task, int64_t row, int64_t column) {
  constexpr int kVectors = VectorsAtOnce(kRows);
  typename Words::Sum sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Words::ZeroSum();
  }
  const uint8_t* x = task.x + row * task.x_stride;
  const uint8_t* line = task.panel + column * kWordBytes;
  for (int64_t i = 0; i < task.lines; ++i, line += kLineBytes, x += kWordBytes) {
    typename Words::Weights weights[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Words::SplitWeights(LoadWords(line + v * kVectorLanes * kWordBytes));
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto factor = Words::SplitFactor(BroadcastWord(x + r * task.x_stride));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Words::Dot(sums[r][v], factor, weights[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    Vec values[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      values[v] = Words::Finish(sums[r][v], task, row + r, column + v * kVectorLanes);
    }
    StoreTile(values, task, row + r, column);
  }
}

template <typename Words, int kRows>
HWY_INLINE void MultiplyTileRows(const LinesTask& task, int64_t row) {
  constexpr int64_t kColumns = VectorsAtOnce(kRows) * kVectorLanes;
  for (int64_t column = 0; column < task.columns; column += kColumns) {
    MultiplyTile<Words, kRows>(task, row, column);
  }
}

// The last rows, fewer than or equal to kRows.
template <typename Words, int kRows>
HWY_INLINE void MultiplyLastRows(const LinesTask& task, int64_t row) {
  if (task.rows - row == kRows) {
    MultiplyTileRows<Words, kRows>(task, row);
  } else if constexpr (kRows > 1) {
    MultiplyLastRows<Words, kRows - 1>(task, row);
  }
}

template <typename Words>
HWY_INLINE void MultiplyLines(const LinesTask& task) {
  int64_t row = 0;
  for (; row + kMostRows <= task.rows; row += kMostRows)
    MultiplyTileRows<Words, kMostRows>(task, row);
  MultiplyLastRows<Words, kMostRows>(task, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_TILES_INL_H_
