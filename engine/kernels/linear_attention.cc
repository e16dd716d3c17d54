#include "engine/kernels/linear_attention.h"

#include <vector>

#include "engine/kernels/block_product.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/linear_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// S and the numerator for the value columns of one vector, token after token. The sum over features
// goes into two accumulators, for the even and the odd ones, whatever the width of a vector.
template <class D>
HWY_INLINE void ScanColumns(D d, const LinearAttentionRun& run, int64_t column) {
  const auto decay = hn::Set(d, run.decay);
  const int64_t stride = run.value_dim;
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    float* HWY_RESTRICT s = run.S + column;
    const auto v = hn::LoadU(d, run.v + t * run.v_stride + column);
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 <= run.feature_dim; i += 2, s += 2 * stride) {
      const auto s0 = hn::MulAdd(hn::Set(d, k[i]), v, hn::Mul(decay, hn::LoadU(d, s)));
      const auto s1 = hn::MulAdd(hn::Set(d, k[i + 1]), v, hn::Mul(decay, hn::LoadU(d, s + stride)));
      hn::StoreU(s0, d, s);
      hn::StoreU(s1, d, s + stride);
      even = hn::MulAdd(hn::Set(d, q[i]), s0, even);
      odd = hn::MulAdd(hn::Set(d, q[i + 1]), s1, odd);
    }
    if (i < run.feature_dim) {
      const auto s0 = hn::MulAdd(hn::Set(d, k[i]), v, hn::Mul(decay, hn::LoadU(d, s)));
      hn::StoreU(s0, d, s);
      even = hn::MulAdd(hn::Set(d, q[i]), s0, even);
    }
    hn::StoreU(hn::Add(even, odd), d, run.o + t * run.o_stride + column);
  }
}

// Columns from `column` on: whole vectors first, then vectors of half the width for what is left.
template <class D>
void Scan(D d, const LinearAttentionRun& run, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= run.value_dim; column += lanes) ScanColumns(d, run, column);
  if constexpr (hn::MaxLanes(D()) > 1) Scan(hn::Half<D>(), run, column);
}

void LinearAttentionScan(const LinearAttentionRun& run) { Scan(kTag, run, 0); }

// z, token after token, and the division of the numerators that are in o.
int64_t NormaliserScan(const LinearAttentionRun& run) {
  const Vec decay = hn::Set(kTag, run.decay);
  int64_t clamps = 0;
  for (int64_t t = 0; t < run.count; ++t) {
    const float* q = run.q + t * run.q_stride;
    Map(run.z, run.k + t * run.k_stride, run.z, run.feature_dim,
        [decay](Vec z, Vec k) { return hn::MulAdd(decay, z, k); });
    const float sum = VectorDot(q, run.z, run.feature_dim);
    const float magnitude = Fold(
        q, run.z, run.feature_dim, 0.0f,
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

HWY_EXPORT(LinearAttentionScan);
HWY_EXPORT(NormaliserScan);

namespace {

// γ^0 … γ^count.
std::vector<float> Powers(float decay, int64_t count) {
  std::vector<float> powers(count + 1);
  for (int64_t n = 0; n <= count; ++n) {
    powers[n] = static_cast<float>(std::pow(static_cast<double>(decay), n));
  }
  return powers;
}

// The run of `count` tokens that starts at token `first` of `run`.
LinearAttentionRun Part(const LinearAttentionRun& run, int64_t first, int64_t count) {
  LinearAttentionRun part = run;
  part.count = count;
  part.q += first * run.q_stride;
  part.k += first * run.k_stride;
  part.v += first * run.v_stride;
  part.o += first * run.o_stride;
  return part;
}

// o = S of before the run, read by each q and decayed up to it.
void ReadState(const LinearAttentionRun& run, const float* powers) {
  for (int64_t t = 0; t < run.count; ++t) {
    std::fill_n(run.o + t * run.o_stride, run.value_dim, 0.0f);
  }
  MultiplyAccumulate({.a = run.q,
                      .a_stride = run.q_stride,
                      .b = run.S,
                      .b_stride = run.value_dim,
                      .c = run.o,
                      .c_stride = run.o_stride,
                      .rows = run.count,
                      .inner = run.feature_dim,
                      .columns = run.value_dim});
  for (int64_t t = 0; t < run.count; ++t) {
    Scale(powers[t + 1], run.o + t * run.o_stride, run.value_dim);
  }
}

// S = γ^count S + Σ_s γ^(count-1-s) k_s v_sᵀ. `keys` is kᵀ [feature_dim, count], and is
// overwritten.
void AdvanceState(const LinearAttentionRun& run, const float* powers, float* keys) {
  for (int64_t i = 0; i < run.feature_dim; ++i) {
    for (int64_t s = 0; s < run.count; ++s) keys[i * run.count + s] *= powers[run.count - 1 - s];
  }
  Scale(powers[run.count], run.S, run.feature_dim * run.value_dim);
  MultiplyAccumulate({.a = keys,
                      .a_stride = run.count,
                      .b = run.v,
                      .b_stride = run.v_stride,
                      .c = run.S,
                      .c_stride = run.value_dim,
                      .rows = run.feature_dim,
                      .inner = run.count,
                      .columns = run.value_dim});
}

// scores [count, count] = q_t · k_s of every pair of tokens, by way of keys = kᵀ [feature_dim, count].
void KeyProducts(const LinearAttentionRun& run, float* keys, float* scores) {
  Transpose(run.k, run.k_stride, run.count, run.feature_dim, keys, run.count);
  std::fill_n(scores, run.count * run.count, 0.0f);
  MultiplyAccumulate({.a = run.q,
                      .a_stride = run.q_stride,
                      .b = keys,
                      .b_stride = run.count,
                      .c = scores,
                      .c_stride = run.count,
                      .rows = run.count,
                      .inner = run.feature_dim,
                      .columns = run.count});
}

// S and the numerators of one chunk.
void Chunk(const LinearAttentionRun& run, const float* powers, float* scratch) {
  const int64_t count = run.count;
  float* keys = scratch;
  float* scores = keys + run.feature_dim * count;
  KeyProducts(run, keys, scores);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t s = 0; s < count; ++s) scores[t * count + s] *= s <= t ? powers[t - s] : 0.0f;
  }
  ReadState(run, powers);
  MultiplyAccumulate({.a = scores,
                      .a_stride = count,
                      .b = run.v,
                      .b_stride = run.v_stride,
                      .c = run.o,
                      .c_stride = run.o_stride,
                      .rows = count,
                      .inner = count,
                      .columns = run.value_dim});
  AdvanceState(run, powers, keys);
}

}  // namespace

int64_t LinearAttentionRecurrent(const LinearAttentionRun& run) {
  HWY_DYNAMIC_DISPATCH(LinearAttentionScan)(run);
  return run.z == nullptr ? 0 : HWY_DYNAMIC_DISPATCH(NormaliserScan)(run);
}

int64_t LinearAttentionChunkScratch(const LinearAttentionRun& run, int64_t chunk) {
  const int64_t rows = std::min(run.count, chunk);
  return rows * (run.feature_dim + rows);
}

int64_t LinearAttentionChunkwise(const LinearAttentionRun& run, int64_t position, int64_t chunk,
                                 float* scratch) {
  const std::vector<float> powers = Powers(run.decay, std::min(run.count, chunk));
  for (int64_t first = 0; first < run.count;) {
    const int64_t count = std::min(chunk - (position + first) % chunk, run.count - first);
    Chunk(Part(run, first, count), powers.data(), scratch);
    first += count;
  }
  // z costs one part in value_dim of what S does: it needs no chunks.
  return run.z == nullptr ? 0 : HWY_DYNAMIC_DISPATCH(NormaliserScan)(run);
}

int64_t LinearAttentionParallelScratch(const LinearAttentionRun& run) {
  return 2 * run.count * (run.count + run.feature_dim);
}

int64_t LinearAttentionParallel(const LinearAttentionRun& run, float* scratch) {
  const int64_t count = run.count;
  const std::vector<float> powers = Powers(run.decay, count);
  float* decays = scratch;                       // γ^(t-s) for s ≤ t, else 0 [count, count]
  float* scores = decays + count * count;        // [count, count]
  float* keys = scores + count * count;          // kᵀ [feature_dim, count]
  float* sums = keys + count * run.feature_dim;  // z of every token [count, feature_dim]
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t s = 0; s < count; ++s) decays[t * count + s] = s <= t ? powers[t - s] : 0.0f;
  }
  KeyProducts(run, keys, scores);
  Multiply(decays, scores, count * count);

  int64_t clamps = 0;
  if (run.z != nullptr) {
    std::fill_n(sums, count * run.feature_dim, 0.0f);
    MultiplyAccumulate({.a = decays,
                        .a_stride = count,
                        .b = run.k,
                        .b_stride = run.k_stride,
                        .c = sums,
                        .c_stride = run.feature_dim,
                        .rows = count,
                        .inner = count,
                        .columns = run.feature_dim});
  }
  for (int64_t t = 0; t < count; ++t) {
    const float* q = run.q + t * run.q_stride;
    float* o = run.o + t * run.o_stride;
    std::fill_n(o, run.value_dim, 0.0f);
    for (int64_t i = 0; i < run.feature_dim; ++i) {
      MultiplyAdd(powers[t + 1] * q[i], run.S + i * run.value_dim, o, run.value_dim);
    }
    for (int64_t s = 0; s <= t; ++s) {
      MultiplyAdd(scores[t * count + s], run.v + s * run.v_stride, o, run.value_dim);
    }
    if (run.z == nullptr) continue;
    float* z = sums + t * run.feature_dim;
    MultiplyAdd(powers[t + 1], run.z, z, run.feature_dim);
    float magnitude = 0;
    for (int64_t i = 0; i < run.feature_dim; ++i) magnitude += std::abs(q[i] * z[i]);
    const float sum =
        Sum(scores + t * count, t + 1) + powers[t + 1] * Dot(q, run.z, run.feature_dim);
    const Denominator denominator = ClampDenominator(sum, magnitude);
    clamps += denominator.clamped ? 1 : 0;
    for (int64_t j = 0; j < run.value_dim; ++j) o[j] /= denominator.value;
  }

  for (int64_t i = 0; i < run.feature_dim; ++i) {
    float* row = run.S + i * run.value_dim;
    Scale(powers[count], row, run.value_dim);
    for (int64_t s = 0; s < count; ++s) {
      const float key = powers[count - 1 - s] * run.k[s * run.k_stride + i];
      MultiplyAdd(key, run.v + s * run.v_stride, row, run.value_dim);
    }
  }
  if (run.z != nullptr) {
    std::copy_n(sums + (count - 1) * run.feature_dim, run.feature_dim, run.z);
  }
  return clamps;
}

}  // namespace fermata
#endif  // HWY_ONCE
