#include "engine/kernels/block_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/block_product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// Four rows of c at once, so that each vector of b is loaded once for four products.
template <class D>
HWY_INLINE void FourRows(D d, const BlockProduct& p, int64_t row, int64_t column) {
  const float* a0 = p.a + row * p.a_stride;
  const float* a1 = a0 + p.a_stride;
  const float* a2 = a1 + p.a_stride;
  const float* a3 = a2 + p.a_stride;
  const float* b = p.b + column;
  float* c0 = p.c + row * p.c_stride + column;
  float* c1 = c0 + p.c_stride;
  float* c2 = c1 + p.c_stride;
  float* c3 = c2 + p.c_stride;
  auto sum0 = hn::LoadU(d, c0);
  auto sum1 = hn::LoadU(d, c1);
  auto sum2 = hn::LoadU(d, c2);
  auto sum3 = hn::LoadU(d, c3);
  for (int64_t i = 0; i < p.inner; ++i, b += p.b_stride) {
    const auto vector = hn::LoadU(d, b);
    sum0 = hn::MulAdd(hn::Set(d, a0[i]), vector, sum0);
    sum1 = hn::MulAdd(hn::Set(d, a1[i]), vector, sum1);
    sum2 = hn::MulAdd(hn::Set(d, a2[i]), vector, sum2);
    sum3 = hn::MulAdd(hn::Set(d, a3[i]), vector, sum3);
  }
  hn::StoreU(sum0, d, c0);
  hn::StoreU(sum1, d, c1);
  hn::StoreU(sum2, d, c2);
  hn::StoreU(sum3, d, c3);
}

template <class D>
HWY_INLINE void OneRow(D d, const BlockProduct& p, int64_t row, int64_t column) {
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + column;
  float* c = p.c + row * p.c_stride + column;
  auto sum = hn::LoadU(d, c);
  for (int64_t i = 0; i < p.inner; ++i, b += p.b_stride) {
    sum = hn::MulAdd(hn::Set(d, a[i]), hn::LoadU(d, b), sum);
  }
  hn::StoreU(sum, d, c);
}

// Columns from `column` on: whole vectors first, then vectors of half the width for what is left.
template <class D>
void Columns(D d, const BlockProduct& p, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= p.columns; column += lanes) {
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) FourRows(d, p, row, column);
    for (; row < p.rows; ++row) OneRow(d, p, row, column);
  }
  if constexpr (hn::MaxLanes(D()) > 1) Columns(hn::Half<D>(), p, column);
}

void MultiplyAccumulate(const BlockProduct& product) { Columns(kTag, product, 0); }

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(MultiplyAccumulate);

void MultiplyAccumulate(const BlockProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyAccumulate)(product);
}

void Transpose(const float* a, int64_t a_stride, int64_t rows, int64_t columns, float* out,
               int64_t out_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      out[column * out_stride + row] = a[row * a_stride + column];
    }
  }
}

}  // namespace fermata
#endif  // HWY_ONCE
