#include "engine/kernels/elementwise.h"

#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

void AddImpl(const float* x, float* y, int64_t count) {
  Map(x, y, y, count, [](Vec a, Vec b) { return hn::Add(a, b); });
}

void MultiplyImpl(const float* x, float* y, int64_t count) {
  Map(x, y, y, count, [](Vec a, Vec b) { return hn::Mul(a, b); });
}

void ScaleImpl(float factor, const float* x, float* y, int64_t count) {
  const Vec scale = hn::Set(kTag, factor);
  Map(x, y, count, [scale](Vec value) { return hn::Mul(scale, value); });
}

void ShiftImpl(float addend, float* y, int64_t count) {
  const Vec shift = hn::Set(kTag, addend);
  Map(y, y, count, [shift](Vec value) { return hn::Add(value, shift); });
}

void MultiplyAddImpl(float factor, const float* x, float* y, int64_t count) {
  const Vec scale = hn::Set(kTag, factor);
  Map(x, y, y, count, [scale](Vec a, Vec b) { return hn::MulAdd(scale, a, b); });
}

void BlendImpl(const float* share, const float* from, const float* to, float* y, int64_t count) {
  const auto blend = [](Vec part, Vec a, Vec b) { return hn::MulAdd(part, hn::Sub(b, a), a); };
  int64_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) {
    const Vec a = hn::LoadU(kTag, from + i);
    hn::StoreU(blend(hn::LoadU(kTag, share + i), a, hn::LoadU(kTag, to + i)), kTag, y + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest[3][kVectorLanes] = {};
  const size_t bytes = (count - i) * sizeof(float);
  std::memcpy(rest[0], share + i, bytes);
  std::memcpy(rest[1], from + i, bytes);
  std::memcpy(rest[2], to + i, bytes);
  hn::Store(blend(hn::Load(kTag, rest[0]), hn::Load(kTag, rest[1]), hn::Load(kTag, rest[2])), kTag,
            rest[0]);
  std::memcpy(y + i, rest[0], bytes);
}

void ExpImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) { return VectorExp(value); });
}

void ExpOfSumImpl(const float* x, float addend, float limit, float* y, int64_t count) {
  const Vec shift = hn::Set(kTag, addend);
  const Vec highest = hn::Set(kTag, limit);
  Map(x, y, count, [shift, highest](Vec value) {
    const Vec sum = hn::Add(value, shift);
    return VectorExp(hn::IfThenElse(hn::Gt(sum, highest), highest, sum));
  });
}

// Highway's sine and cosine reduce arguments up to this one; a larger one is left to libm, lane by
// lane, so that no element's value depends on the others in its vector.
constexpr float kMaxReducedAngle = 39000.0f;

template <typename Fast, typename Exact>
HWY_INLINE Vec Trigonometric(Vec x, Fast fast, Exact exact) {
  const Vec result = fast(x);
  const auto reduced = hn::Le(hn::Abs(x), hn::Set(kTag, kMaxReducedAngle));
  if (HWY_LIKELY(hn::AllTrue(kTag, reduced))) return result;
  HWY_ALIGN float angles[kVectorLanes];
  hn::Store(x, kTag, angles);
  for (float& angle : angles) angle = exact(angle);
  return hn::IfThenElse(reduced, result, hn::Load(kTag, angles));
}

void SinImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) {
    return Trigonometric(
        value, [](Vec v) { return hn::Sin(kTag, v); }, [](float angle) { return std::sin(angle); });
  });
}

void CosImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) {
    return Trigonometric(
        value, [](Vec v) { return hn::Cos(kTag, v); }, [](float angle) { return std::cos(angle); });
  });
}

void ReluImpl(const float* x, float* y, int64_t count) {
  // Not Max, which drops NaN.
  Map(x, y, count, [](Vec value) {
    return hn::IfThenElse(hn::Lt(value, hn::Zero(kTag)), hn::Zero(kTag), value);
  });
}

void SquaredReluImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) {
    const Vec positive = hn::IfThenElse(hn::Lt(value, hn::Zero(kTag)), hn::Zero(kTag), value);
    return hn::Mul(positive, positive);
  });
}

void EluPlusOneImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) {
    return hn::IfThenElse(hn::Gt(value, hn::Zero(kTag)), hn::Add(value, hn::Set(kTag, 1.0f)),
                          VectorExp(value));
  });
}

void SigmoidImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) { return VectorSigmoid(value); });
}

void SiluImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count, [](Vec value) { return hn::Mul(value, VectorSigmoid(value)); });
}

void SiluMultiplyImpl(const float* gate, const float* up, float* out, int64_t count) {
  Map(gate, up, out, count, [](Vec g, Vec u) { return hn::Mul(hn::Mul(g, VectorSigmoid(g)), u); });
}

void TanhImpl(const float* x, float* y, int64_t count) {
  Map(x, y, count,
      [](Vec value) { return hn::IfThenElse(hn::IsNaN(value), value, hn::Tanh(kTag, value)); });
}

void SoftplusImpl(const float* x, float* y, int64_t count) {
  // The exponential never overflows, and what it adds to a large x is below its last digit.
  Map(x, y, count, [](Vec value) {
    const Vec rest = hn::Log1p(kTag, VectorExp(hn::Neg(hn::Abs(value))));
    const Vec positive = hn::IfThenElse(hn::Lt(value, hn::Zero(kTag)), hn::Zero(kTag), value);
    return hn::Add(positive, rest);
  });
}

void GeluImpl(const float* x, float* y, int64_t count) {
  // (1 + tanh u) / 2 = sigmoid(2u), which keeps its precision where tanh u is near -1.
  const Vec linear = hn::Set(kTag, 1.5957691216057308f);  // 2 √(2/π).
  const Vec cubic = hn::Set(kTag, 0.0713548162726009f);   // 0.044715 · 2 √(2/π).
  Map(x, y, count, [linear, cubic](Vec value) {
    const Vec slope = hn::MulAdd(cubic, hn::Mul(value, value), linear);
    return hn::Mul(value, VectorSigmoid(hn::Mul(value, slope)));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(AddImpl);
HWY_EXPORT(MultiplyImpl);
HWY_EXPORT(ScaleImpl);
HWY_EXPORT(ShiftImpl);
HWY_EXPORT(MultiplyAddImpl);
HWY_EXPORT(BlendImpl);
HWY_EXPORT(ExpImpl);
HWY_EXPORT(ExpOfSumImpl);
HWY_EXPORT(SinImpl);
HWY_EXPORT(CosImpl);
HWY_EXPORT(ReluImpl);
HWY_EXPORT(SquaredReluImpl);
HWY_EXPORT(EluPlusOneImpl);
HWY_EXPORT(SigmoidImpl);
HWY_EXPORT(SiluImpl);
HWY_EXPORT(SiluMultiplyImpl);
HWY_EXPORT(TanhImpl);
HWY_EXPORT(SoftplusImpl);
HWY_EXPORT(GeluImpl);

void Add(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(AddImpl)(x, y, count); }

void Multiply(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(MultiplyImpl)(x, y, count);
}

void Scale(float factor, float* y, int64_t count) { Scale(factor, y, y, count); }

void Scale(float factor, const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ScaleImpl)(factor, x, y, count);
}

void Shift(float addend, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ShiftImpl)(addend, y, count);
}

void MultiplyAdd(float factor, const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(MultiplyAddImpl)(factor, x, y, count);
}

void Blend(const float* share, const float* from, const float* to, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(BlendImpl)(share, from, to, y, count);
}

void Exp(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(ExpImpl)(x, y, count); }

void ExpOfSum(const float* x, float addend, float limit, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ExpOfSumImpl)(x, addend, limit, y, count);
}

void Sin(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(SinImpl)(x, y, count); }

void Cos(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(CosImpl)(x, y, count); }

void Relu(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(ReluImpl)(x, y, count); }

void SquaredRelu(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SquaredReluImpl)(x, y, count);
}

void EluPlusOne(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(EluPlusOneImpl)(x, y, count);
}

void Sigmoid(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SigmoidImpl)(x, y, count);
}

void Silu(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(SiluImpl)(x, y, count); }

void SiluMultiply(const float* gate, const float* up, float* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SiluMultiplyImpl)(gate, up, out, count);
}

void Tanh(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(TanhImpl)(x, y, count); }

void Softplus(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SoftplusImpl)(x, y, count);
}

void Gelu(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(GeluImpl)(x, y, count); }

}  // namespace fermata
#endif  // HWY_ONCE
