#include "engine/kernels/norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

float DotImpl(const float* a, const float* b, int64_t count) { return VectorDot(a, b, count); }

float SumImpl(const float* x, int64_t count) { return VectorSum(x, count); }

// out = x · scale · weight + bias; weight and bias may be null.
HWY_INLINE void ScaleRow(const float* x, float scale, const float* weight, const float* bias,
                         int64_t dim, float* out) {
  const Vec factor = hn::Set(kTag, scale);
  if (weight == nullptr) {
    Map(x, out, dim, [factor](Vec value) { return hn::Mul(value, factor); });
  } else {
    Map(x, weight, out, dim,
        [factor](Vec value, Vec w) { return hn::Mul(hn::Mul(value, factor), w); });
  }
  if (bias != nullptr) {
    Map(out, bias, out, dim, [](Vec value, Vec b) { return hn::Add(value, b); });
  }
}

void RmsNormRow(const float* x, const float* weight, int64_t dim, float eps, float* out) {
  const float mean_square = VectorDot(x, x, dim) / static_cast<float>(dim);
  ScaleRow(x, 1.0f / std::sqrt(mean_square + eps), weight, nullptr, dim, out);
}

void LayerNormRow(const float* x, const float* weight, const float* bias, int64_t dim, float eps,
                  float* out) {
  const Vec mean = hn::Set(kTag, VectorSum(x, dim) / static_cast<float>(dim));
  Map(x, out, dim, [mean](Vec value) { return hn::Sub(value, mean); });
  const float variance = VectorDot(out, out, dim) / static_cast<float>(dim);
  ScaleRow(out, 1.0f / std::sqrt(variance + eps), weight, bias, dim, out);
}

void ScaleRowBy(const float* x, float scale, int64_t dim, float* out) {
  ScaleRow(x, scale, nullptr, nullptr, dim, out);
}

void SoftmaxRow(float* x, int64_t dim) {
  const float max = Fold(
      x, x, dim, -std::numeric_limits<float>::infinity(),
      [](Vec highest, Vec value, Vec) { return hn::Max(highest, value); },
      [](float a, float b) { return a > b ? a : b; });
  const Vec shift = hn::Set(kTag, max);
  Map(x, x, dim, [shift](Vec value) { return VectorExp(hn::Sub(value, shift)); });
  ScaleRow(x, 1.0f / VectorSum(x, dim), nullptr, nullptr, dim, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(DotImpl);
HWY_EXPORT(SumImpl);
HWY_EXPORT(RmsNormRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(ScaleRowBy);
HWY_EXPORT(SoftmaxRow);

float Dot(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DotImpl)(a, b, count);
}

float Sum(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(SumImpl)(x, count); }

void RmsNorm(const float* x, const float* weight, int64_t rows, int64_t dim, float eps,
             float* out) {
  for (int64_t row = 0; row < rows; ++row) {
    HWY_DYNAMIC_DISPATCH(RmsNormRow)(x + row * dim, weight, dim, eps, out + row * dim);
  }
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t rows, int64_t dim,
               float eps, float* out) {
  for (int64_t row = 0; row < rows; ++row) {
    HWY_DYNAMIC_DISPATCH(LayerNormRow)(x + row * dim, weight, bias, dim, eps, out + row * dim);
  }
}

void L2Norm(const float* x, int64_t rows, int64_t dim, float eps, float* out) {
  for (int64_t row = 0; row < rows; ++row, x += dim, out += dim) {
    const float scale = 1.0f / std::sqrt(Dot(x, x, dim) + eps);
    HWY_DYNAMIC_DISPATCH(ScaleRowBy)(x, scale, dim, out);
  }
}

void UnitNorm(const float* x, int64_t rows, int64_t dim, float floor, float* out) {
  for (int64_t row = 0; row < rows; ++row, x += dim, out += dim) {
    const float scale = 1.0f / std::max(std::sqrt(Dot(x, x, dim)), floor);
    HWY_DYNAMIC_DISPATCH(ScaleRowBy)(x, scale, dim, out);
  }
}

void Softmax(float* x, int64_t rows, int64_t dim) {
  for (int64_t row = 0; row < rows; ++row) HWY_DYNAMIC_DISPATCH(SoftmaxRow)(x + row * dim, dim);
}

}  // namespace fermata
#endif  // HWY_ONCE
