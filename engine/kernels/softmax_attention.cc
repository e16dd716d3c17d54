#include "engine/kernels/softmax_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/softmax_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// o = rescale · o + Σ_s weights[s] · v_s, for columns from `column` on: whole vectors first, then
// vectors of half the width for what is left.
template <class D>
HWY_INLINE void AddValues(D d, const KeyValueRows& rows, const float* weights, float rescale,
                          int64_t column, const OnlineSoftmax& attention) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= attention.dim; column += lanes) {
    float* o = attention.o + column;
    const float* value = rows.values + column;
    auto sum = attention.sum == 0 ? hn::Zero(d) : hn::Mul(hn::Set(d, rescale), hn::LoadU(d, o));
    for (int64_t s = 0; s < rows.count; ++s, value += rows.stride) {
      sum = hn::MulAdd(hn::Set(d, weights[s]), hn::LoadU(d, value), sum);
    }
    hn::StoreU(sum, d, o);
  }
  if constexpr (hn::MaxLanes(D()) > 1) {
    AddValues(hn::Half<D>(), rows, weights, rescale, column, attention);
  }
}

void AttendBlockImpl(const KeyValueRows& rows, OnlineSoftmax& attention) {
  HWY_ALIGN float weights[kAttentionBlock];
  float maximum = 0;
  for (int64_t s = 0; s < rows.count; ++s) {
    weights[s] = VectorDot(attention.q, rows.keys + s * rows.stride, attention.dim);
    maximum = s == 0 ? weights[0] : std::max(maximum, weights[s]);
  }
  float rescale = 1;
  if (attention.sum != 0) {
    maximum = std::max(maximum, attention.maximum);
    rescale = std::exp(attention.maximum - maximum);
  }
  const Vec offset = hn::Set(kTag, maximum);
  Map(weights, weights, rows.count, [offset](Vec x) { return VectorExp(hn::Sub(x, offset)); });
  AddValues(kTag, rows, weights, rescale, 0, attention);
  attention.sum = attention.sum * rescale + VectorSum(weights, rows.count);
  attention.maximum = maximum;
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(AttendBlockImpl);

void AttendBlock(const KeyValueRows& rows, OnlineSoftmax& attention) {
  HWY_DYNAMIC_DISPATCH(AttendBlockImpl)(rows, attention);
}

void FinishAttention(OnlineSoftmax& attention) {
  Scale(1.0f / attention.sum, attention.o, attention.dim);
}

}  // namespace fermata
#endif  // HWY_ONCE
