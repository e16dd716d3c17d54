#include "engine/kernels/decay_rule.h"

#include "engine/kernels/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/decay_rule.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// S and the numerator for the value columns of one vector, token after token. The sum over channels
// goes into two accumulators, for the even and the odd ones, whatever the width of a vector.
template <bool kPerChannel, bool kBonus, class D>
HWY_INLINE void ScanColumns(D d, const DecayRun& run, int64_t column) {
  const int64_t stride = run.value_dim;
  auto shared_decay = hn::Set(d, 1.0f);
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    const float* HWY_RESTRICT w = run.decay + t * run.decay_stride;
    float* HWY_RESTRICT s = run.S + column;
    const auto v = hn::LoadU(d, run.v + t * run.v_stride + column);
    if (!kPerChannel && run.decay != nullptr) shared_decay = hn::Set(d, *w);
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    const auto step = [&](int64_t i, float* row, auto& sum) HWY_ATTR {
      const auto decay = kPerChannel ? hn::Set(d, w[i]) : shared_decay;
      const auto before = hn::LoadU(d, row);
      const auto after = hn::MulAdd(hn::Set(d, k[i]), v, hn::Mul(decay, before));
      hn::StoreU(after, d, row);
      sum = hn::MulAdd(hn::Set(d, q[i]), kBonus ? before : after, sum);
    };
    int64_t i = 0;
    for (; i + 2 <= run.key_dim; i += 2, s += 2 * stride) {
      step(i, s, even);
      step(i + 1, s + stride, odd);
    }
    if (i < run.key_dim) step(i, s, even);
    hn::StoreU(hn::Add(even, odd), d, run.o + t * run.o_stride + column);
  }
}

// Columns from `column` on: whole vectors first, then vectors of half the width for what is left.
template <bool kPerChannel, bool kBonus, class D>
void Scan(D d, const DecayRun& run, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= run.value_dim; column += lanes) {
    ScanColumns<kPerChannel, kBonus>(d, run, column);
  }
  if constexpr (hn::MaxLanes(D()) > 1) Scan<kPerChannel, kBonus>(hn::Half<D>(), run, column);
}

void DecayScan(const DecayRun& run) {
  const bool per_channel = run.decay != nullptr && run.decay_per_channel;
  if (run.bonus == nullptr) {
    per_channel ? Scan<true, false>(kTag, run, 0) : Scan<false, false>(kTag, run, 0);
  } else {
    per_channel ? Scan<true, true>(kTag, run, 0) : Scan<false, true>(kTag, run, 0);
  }
}

// Σ_i q_i u_i k_i.
float TripleDot(const float* q, const float* u, const float* k, int64_t count) {
  constexpr int64_t kPiece = 256;
  HWY_ALIGN float products[kPiece];
  float sum = 0;
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t piece = std::min(kPiece, count - i);
    Map(q + i, u + i, products, piece, [](Vec a, Vec b) { return hn::Mul(a, b); });
    sum += VectorDot(products, k + i, piece);
  }
  return sum;
}

// To what S gave each token, adds what the bonus gives it of its own value.
void BonusScan(const DecayRun& run) {
  for (int64_t t = 0; t < run.count; ++t) {
    float* o = run.o + t * run.o_stride;
    const Vec factor = hn::Set(kTag, TripleDot(run.q + t * run.q_stride, run.bonus,
                                               run.k + t * run.k_stride, run.key_dim));
    Map(run.v + t * run.v_stride, o, o, run.value_dim,
        [factor](Vec v, Vec sum) { return hn::MulAdd(factor, v, sum); });
  }
}

// z, token after token, and the division of the numerators that are in o.
int64_t NormaliserScan(const DecayRun& run) {
  int64_t clamps = 0;
  for (int64_t t = 0; t < run.count; ++t) {
    const float* q = run.q + t * run.q_stride;
    const float* w = run.decay + t * run.decay_stride;
    if (run.decay != nullptr && run.decay_per_channel) {
      Map(run.z, w, run.z, run.key_dim, [](Vec z, Vec decay) { return hn::Mul(decay, z); });
    } else if (run.decay != nullptr) {
      const Vec decay = hn::Set(kTag, *w);
      Map(run.z, run.z, run.key_dim, [decay](Vec z) { return hn::Mul(decay, z); });
    }
    Map(run.z, run.k + t * run.k_stride, run.z, run.key_dim,
        [](Vec z, Vec k) { return hn::Add(z, k); });
    const float sum = VectorDot(q, run.z, run.key_dim);
    const float magnitude = Fold(
        q, run.z, run.key_dim, 0.0f,
        [](Vec total, Vec x, Vec y) { return hn::MulAdd(hn::Abs(x), hn::Abs(y), total); },
        [](float x, float y) { return x + y; });
    const Denominator denominator = ClampDenominator(sum, magnitude);
    clamps += denominator.clamped ? 1 : 0;
    const Vec divisor = hn::Set(kTag, denominator.value);
    float* o = run.o + t * run.o_stride;
    Map(o, o, run.value_dim, [divisor](Vec numerator) { return hn::Div(numerator, divisor); });
  }
  return clamps;
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(DecayScan);
HWY_EXPORT(BonusScan);
HWY_EXPORT(NormaliserScan);

int64_t DecayRecurrent(const DecayRun& run) {
  HWY_DYNAMIC_DISPATCH(DecayScan)(run);
  if (run.bonus != nullptr) HWY_DYNAMIC_DISPATCH(BonusScan)(run);
  return run.z == nullptr ? 0 : HWY_DYNAMIC_DISPATCH(NormaliserScan)(run);
}

int64_t Compute(const DecayRun& run, int64_t, Form) { return DecayRecurrent(run); }

}  // namespace fermata
#endif  // HWY_ONCE
