#include "engine/kernels/convolution.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/convolution.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// One row of the output: columns from `column` on, in whole vectors first, then in vectors of half
// the width for what is left. Tokens before the first are rows of `state`.
template <class D>
HWY_INLINE void ConvolveRow(D d, const CausalConvolution& convolution, const float* x, int64_t t,
                            const float* state, int64_t column, float* out) {
  const int64_t dim = convolution.dim;
  const int64_t past = convolution.taps - 1;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= dim; column += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j <= past; ++j) {
      const int64_t source = t - past + j;
      const float* input = source >= 0 ? x + source * dim : state + (past + source) * dim;
      sum = hn::MulAdd(hn::LoadU(d, convolution.weight + j * dim + column),
                       hn::LoadU(d, input + column), sum);
    }
    hn::StoreU(sum, d, out + column);
  }
  if constexpr (hn::MaxLanes(D()) > 1) {
    ConvolveRow(hn::Half<D>(), convolution, x, t, state, column, out);
  }
}

void ConvolveRows(const CausalConvolution& convolution, const float* x, int64_t count,
                  const float* state, float* out) {
  for (int64_t t = 0; t < count; ++t) {
    ConvolveRow(kTag, convolution, x, t, state, 0, out + t * convolution.dim);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(ConvolveRows);

void Convolve(const CausalConvolution& convolution, const float* x, int64_t count, float* state,
              float* out) {
  HWY_DYNAMIC_DISPATCH(ConvolveRows)(convolution, x, count, state, out);
  const int64_t dim = convolution.dim;
  const int64_t past = convolution.taps - 1;
  const int64_t fresh = std::min(past, count);  // Rows of x that become state.
  std::copy(state + fresh * dim, state + past * dim, state);
  std::copy_n(x + (count - fresh) * dim, fresh * dim, state + (past - fresh) * dim);
}

}  // namespace fermata
#endif  // HWY_ONCE
