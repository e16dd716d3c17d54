#include "engine/kernels/delta_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/delta_rule.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// xᵀ S for the value columns of one vector. Here and below a sum over channels goes into two
// accumulators, for the even and the odd ones, whatever the width of a vector.
template <class D>
HWY_INLINE hn::Vec<D> ReadColumns(D d, const float* HWY_RESTRICT x, const float* HWY_RESTRICT s,
                                  const DeltaRun& run) {
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 <= run.key_dim; i += 2, s += 2 * run.value_dim) {
    even = hn::MulAdd(hn::Set(d, x[i]), hn::LoadU(d, s), even);
    odd = hn::MulAdd(hn::Set(d, x[i + 1]), hn::LoadU(d, s + run.value_dim), odd);
  }
  if (i < run.key_dim) even = hn::MulAdd(hn::Set(d, x[i]), hn::LoadU(d, s), even);
  return hn::Add(even, odd);
}

// S and o for the value columns of one vector, token after token.
template <bool kPerChannel, bool kOwnB, class D>
HWY_INLINE void ScanColumns(D d, const DeltaRun& run, int64_t column) {
  const int64_t stride = run.value_dim;
  auto shared_decay = hn::Set(d, 1.0f);
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    const float* HWY_RESTRICT b = run.b + t * run.b_stride;
    const float* HWY_RESTRICT w = run.decay + t * run.decay_stride;
    float* HWY_RESTRICT s = run.S + column;
    const auto u = ReadColumns(d, run.a + t * run.a_stride, s, run);
    auto v = hn::LoadU(d, run.v + t * run.v_stride + column);
    if (!kOwnB) v = hn::Sub(v, u);
    if (!kPerChannel && run.decay != nullptr) shared_decay = hn::Set(d, *w);
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    const auto step = [&](int64_t i, float* row, auto& sum) HWY_ATTR {
      const auto decay = kPerChannel ? hn::Set(d, w[i]) : shared_decay;
      auto after = hn::MulAdd(hn::Set(d, k[i]), v, hn::Mul(decay, hn::LoadU(d, row)));
      if constexpr (kOwnB) after = hn::MulAdd(hn::Set(d, b[i]), u, after);
      hn::StoreU(after, d, row);
      sum = hn::MulAdd(hn::Set(d, q[i]), after, sum);
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
template <bool kPerChannel, bool kOwnB, class D>
void Scan(D d, const DeltaRun& run, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= run.value_dim; column += lanes) {
    ScanColumns<kPerChannel, kOwnB>(d, run, column);
  }
  if constexpr (hn::MaxLanes(D()) > 1) Scan<kPerChannel, kOwnB>(hn::Half<D>(), run, column);
}

void DeltaScan(const DeltaRun& run) {
  const bool per_channel = run.decay != nullptr && run.decay_per_channel;
  if (run.b == nullptr) {
    per_channel ? Scan<true, false>(kTag, run, 0) : Scan<false, false>(kTag, run, 0);
  } else {
    per_channel ? Scan<true, true>(kTag, run, 0) : Scan<false, true>(kTag, run, 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(DeltaScan);

void DeltaRecurrent(const DeltaRun& run) { HWY_DYNAMIC_DISPATCH(DeltaScan)(run); }

int64_t Compute(const DeltaRun& run, int64_t, Form) {
  DeltaRecurrent(run);
  return 0;
}

}  // namespace fermata
#endif  // HWY_ONCE
