// What the kernels share, compiled once for each instruction set. Include it after highway.h's
// foreach_target.h, as Highway's own -inl headers are.

#if defined(FERMATA_ENGINE_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERMATA_ENGINE_KERNELS_VECTOR_INL_H_
#undef FERMATA_ENGINE_KERNELS_VECTOR_INL_H_
#else
#define FERMATA_ENGINE_KERNELS_VECTOR_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums run in kLanes partial sums whatever the width of the machine's vectors, so that their order,
// and with it their bits, is the same everywhere.
inline constexpr int64_t kLanes = 16;
using Tag = hn::CappedTag<float, kLanes>;
using Vec = hn::Vec<Tag>;
inline constexpr Tag kTag{};
inline constexpr int64_t kVectorLanes = hn::MaxLanes(Tag());
inline constexpr int64_t kVectorsPerBlock = kLanes / kVectorLanes;

// Asks for `kFloats` floats to come to the second cache: the first may not have room for two states.
template <int64_t kFloats>
HWY_INLINE void FetchLines(const float* from) {
  constexpr int64_t kLineFloats = 16;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kFloats; i += kLineFloats) __builtin_prefetch(from + i, 0, 2);
}

// e^x for every x. Highway's own needs x ≤ 104 and turns NaN into 0.
HWY_INLINE Vec VectorExp(Vec x) {
  const Vec result = hn::Exp(kTag, hn::Min(x, hn::Set(kTag, 100.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// The numerator is never infinite and the denominator lies in [1, 2], so no x loses precision.
HWY_INLINE Vec VectorSigmoid(Vec x) {
  const Vec one = hn::Set(kTag, 1.0f);
  const Vec decay = VectorExp(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(kTag)), decay, one), hn::Add(one, decay));
}

// y[i] = function(x[i]). The last, partial vector goes through a copy and the same instructions.
template <typename Function>
HWY_INLINE void Map(const float* x, float* y, int64_t count, Function function) {
  int64_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) {
    hn::StoreU(function(hn::LoadU(kTag, x + i)), kTag, y + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest[kVectorLanes] = {};
  std::memcpy(rest, x + i, (count - i) * sizeof(float));
  hn::Store(function(hn::Load(kTag, rest)), kTag, rest);
  std::memcpy(y + i, rest, (count - i) * sizeof(float));
}

// out[i] = function(a[i], b[i]).
template <typename Function>
HWY_INLINE void Map(const float* a, const float* b, float* out, int64_t count, Function function) {
  int64_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) {
    hn::StoreU(function(hn::LoadU(kTag, a + i), hn::LoadU(kTag, b + i)), kTag, out + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest_a[kVectorLanes] = {};
  HWY_ALIGN float rest_b[kVectorLanes] = {};
  std::memcpy(rest_a, a + i, (count - i) * sizeof(float));
  std::memcpy(rest_b, b + i, (count - i) * sizeof(float));
  hn::Store(function(hn::Load(kTag, rest_a), hn::Load(kTag, rest_b)), kTag, rest_a);
  std::memcpy(out + i, rest_a, (count - i) * sizeof(float));
}

// Folds a[0..count) and b[0..count) into kLanes accumulators, `step(accumulator, a, b)` at a time,
// then those into one by a fixed tree of `join`. Missing elements of the last block are `padding`,
// and accumulators begin with it.
template <typename Step, typename Join>
HWY_INLINE float Fold(const float* a, const float* b, int64_t count, float padding, Step step,
                      Join join) {
  Vec partial[kVectorsPerBlock];
  for (Vec& vector : partial) vector = hn::Set(kTag, padding);
  const auto fold_block = [&](const float* block_a, const float* block_b) {
    for (int64_t v = 0; v < kVectorsPerBlock; ++v) {
      const int64_t at = v * kVectorLanes;
      partial[v] = step(partial[v], hn::LoadU(kTag, block_a + at), hn::LoadU(kTag, block_b + at));
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) fold_block(a + i, b + i);
  if (i < count) {
    HWY_ALIGN float rest_a[kLanes];
    HWY_ALIGN float rest_b[kLanes];
    std::fill_n(rest_a, kLanes, padding);
    std::fill_n(rest_b, kLanes, padding);
    std::memcpy(rest_a, a + i, (count - i) * sizeof(float));
    std::memcpy(rest_b, b + i, (count - i) * sizeof(float));
    fold_block(rest_a, rest_b);
  }
  HWY_ALIGN float lanes[kLanes];
  for (int64_t v = 0; v < kVectorsPerBlock; ++v) {
    hn::Store(partial[v], kTag, lanes + v * kVectorLanes);
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] = join(lanes[lane], lanes[lane + half]);
  }
  return lanes[0];
}

HWY_INLINE float VectorDot(const float* a, const float* b, int64_t count) {
  return Fold(
      a, b, count, 0.0f, [](Vec sum, Vec x, Vec y) { return hn::MulAdd(x, y, sum); },
      [](float x, float y) { return x + y; });
}

HWY_INLINE float VectorSum(const float* x, int64_t count) {
  return Fold(
      x, x, count, 0.0f, [](Vec sum, Vec value, Vec) { return hn::Add(sum, value); },
      [](float a, float b) { return a + b; });
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#endif  // FERMATA_ENGINE_KERNELS_VECTOR_INL_H_
