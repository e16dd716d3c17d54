#include "engine/kernels/decay_rule.h"

#include "engine/base/aligned_buffer.h"
#include "engine/kernels/block_product.h"
#include "engine/kernels/chunk_decay.h"
#include "engine/kernels/past_keys.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/decay_rule.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// Vectors of value columns that a scan takes at once, as far as there are registers: rows of a state
// that leaves the cache between two tokens are then read from one end to the other.
constexpr int kWideVectors = kVectorLanes == 16 ? 8 : 2;

// S and the numerator for the value columns of kVectors vectors, token after token. The sum over
// channels goes into two accumulators, for the even and the odd ones, whatever the width and number
// of vectors.
template <bool kPerChannel, bool kBonus, int kVectors, class D>
HWY_INLINE void ScanColumns(D d, const DecayRun& run, int64_t column) {
  constexpr int64_t kColumns = hn::MaxLanes(D());
  const Decays decays = DecaysOf(run);
  float* HWY_RESTRICT S = run.S + column;
  const float* next_S = (run.next_S == nullptr ? run.S : run.next_S) + column;
  auto shared_decay = hn::Set(d, 1.0f);
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    const float* HWY_RESTRICT w = decays.At(t);
    if (!kPerChannel && decays.values != nullptr) shared_decay = hn::Set(d, *w);
    hn::Vec<D> values[kVectors];
    hn::Vec<D> even[kVectors];
    hn::Vec<D> odd[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      values[v] = hn::LoadU(d, run.v + t * run.v_stride + column + v * kColumns);
      even[v] = odd[v] = hn::Zero(d);
    }
    const auto advance = [&](int64_t i, hn::Vec<D>(&sums)[kVectors]) HWY_ATTR
        __attribute__((always_inline)) {
      float* HWY_RESTRICT row = S + i * run.value_dim;
      if (t == 0) FetchLines<kVectors * kColumns>(next_S + i * run.value_dim);
      const auto decay = kPerChannel ? hn::Set(d, w[i]) : shared_decay;
      const auto k_i = hn::Set(d, k[i]);
      const auto q_i = hn::Set(d, q[i]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const auto before = hn::LoadU(d, row + v * kColumns);
        const auto after = hn::MulAdd(k_i, values[v], hn::Mul(decay, before));
        hn::StoreU(after, d, row + v * kColumns);
        sums[v] = hn::MulAdd(q_i, kBonus ? before : after, sums[v]);
      }
    };
    int64_t i = 0;
    for (; i + 2 <= run.key_dim; i += 2) {
      advance(i, even);
      advance(i + 1, odd);
    }
    if (i < run.key_dim) advance(i, even);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(hn::Add(even[v], odd[v]), d, run.o + t * run.o_stride + column + v * kColumns);
    }
  }
}

// Columns from `column` on: several vectors at once first, then one, then vectors of half the width
// for what is left.
template <bool kPerChannel, bool kBonus, int kVectors, class D>
void Scan(D d, const DecayRun& run, int64_t column) {
  constexpr int64_t kColumns = kVectors * hn::MaxLanes(D());
  for (; column + kColumns <= run.value_dim; column += kColumns) {
    ScanColumns<kPerChannel, kBonus, kVectors>(d, run, column);
  }
  if constexpr (kVectors > 4) {
    Scan<kPerChannel, kBonus, 4>(d, run, column);
  } else if constexpr (kVectors > 1) {
    Scan<kPerChannel, kBonus, 1>(d, run, column);
  } else if constexpr (hn::MaxLanes(D()) > 1) {
    Scan<kPerChannel, kBonus, 1>(hn::Half<D>(), run, column);
  }
}

void DecayScan(const DecayRun& run) {
  const bool per_channel = DecaysOf(run).per_channel;
  if (run.bonus == nullptr) {
    per_channel ? Scan<true, false, kWideVectors>(kTag, run, 0)
                : Scan<false, false, kWideVectors>(kTag, run, 0);
  } else {
    per_channel ? Scan<true, true, kWideVectors>(kTag, run, 0)
                : Scan<false, true, kWideVectors>(kTag, run, 0);
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
  const Decays decays = DecaysOf(run);
  int64_t clamps = 0;
  for (int64_t t = 0; t < run.count; ++t) {
    const float* q = run.q + t * run.q_stride;
    const float* w = decays.At(t);
    if (decays.per_channel) {
      Map(run.z, w, run.z, run.key_dim, [](Vec z, Vec decay) { return hn::Mul(decay, z); });
    } else if (decays.values != nullptr) {
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

namespace {

// The run of `count` tokens that starts at token `first` of `run`.
DecayRun Part(const DecayRun& run, int64_t first, int64_t count) {
  DecayRun part = run;
  part.count = count;
  part.q += first * run.q_stride;
  part.k += first * run.k_stride;
  part.v += first * run.v_stride;
  part.o += first * run.o_stride;
  if (run.decay != nullptr) part.decay += first * run.decay_stride;
  return part;
}

void ClearOutput(const DecayRun& run) {
  for (int64_t t = 0; t < run.count; ++t) {
    std::fill_n(run.o + t * run.o_stride, run.value_dim, 0.0f);
  }
}

// What the token's own pair and the normaliser do to o: the same in all forms. z costs one part in
// value_dim of what S does, so that it needs no chunks.
int64_t Finish(const DecayRun& run) {
  if (run.bonus != nullptr) HWY_DYNAMIC_DISPATCH(BonusScan)(run);
  return run.z == nullptr ? 0 : HWY_DYNAMIC_DISPATCH(NormaliserScan)(run);
}

// S and the numerators of one chunk.
void Chunk(const DecayRun& run, float* scratch) {
  const int64_t count = run.count;
  const int64_t padded = PaddedTokens(count);
  float* keys = scratch;                        // [key_dim, padded]
  float* scores = keys + run.key_dim * padded;  // [count, padded]
  float* readers = scores + count * padded;     // [count, key_dim]
  const ChunkDecay decay(DecaysOf(run), count, run.key_dim, readers + count * run.key_dim);

  // With a bonus, tokens read S as it was before them.
  const bool before = run.bonus != nullptr;
  const Readers queries{.x = run.q, .stride = run.q_stride, .scores = scores};
  decay.Score({.y = run.k,
               .stride = run.k_stride,
               .before = before ? queries : Readers{},
               .after = before ? Readers{} : queries,
               .keys = keys});
  decay.DecayReaders(run.q, run.q_stride, before, readers);

  ClearOutput(run);
  MultiplyAccumulate({.a = readers,
                      .a_stride = run.key_dim,
                      .b = run.S,
                      .b_stride = run.value_dim,
                      .c = run.o,
                      .c_stride = run.o_stride,
                      .rows = count,
                      .inner = run.key_dim,
                      .columns = run.value_dim});
  MultiplyTriangular({.scores = scores,
                      .b = run.v,
                      .b_stride = run.v_stride,
                      .c = run.o,
                      .c_stride = run.o_stride,
                      .count = count,
                      .columns = run.value_dim});
  decay.DecayState(run.S, run.value_dim);
  MultiplyAccumulate({.a = keys,
                      .a_stride = padded,
                      .b = run.v,
                      .b_stride = run.v_stride,
                      .c = run.S,
                      .c_stride = run.value_dim,
                      .rows = run.key_dim,
                      .inner = count,
                      .columns = run.value_dim});
}

}  // namespace

int64_t DecayRecurrent(const DecayRun& run) {
  HWY_DYNAMIC_DISPATCH(DecayScan)(run);
  return Finish(run);
}

int64_t DecayChunkScratch(const DecayRun& run, int64_t chunk) {
  const int64_t count = std::min(run.count, chunk);
  const int64_t padded = PaddedTokens(count);
  return padded * (run.key_dim + count) + count * run.key_dim +
         ChunkDecay::ScratchFloats(count, run.key_dim);
}

int64_t DecayChunkwise(const DecayRun& run, int64_t position, int64_t chunk, float* scratch) {
  for (int64_t first = 0; first < run.count;) {
    const int64_t count = std::min(chunk - (position + first) % chunk, run.count - first);
    Chunk(Part(run, first, count), scratch);
    first += count;
  }
  return Finish(run);
}

int64_t DecayParallelScratch(const DecayRun& run) {
  return PastKeys::ScratchFloats(run.count, run.key_dim) + PastState::ScratchFloats(run.key_dim);
}

int64_t DecayParallel(const DecayRun& run, float* scratch) {
  const Decays decays = DecaysOf(run);
  PastState state(decays, run.key_dim, run.S, run.value_dim, scratch);
  PastKeys keys(decays, run.count, run.key_dim, run.k, run.k_stride,
                scratch + PastState::ScratchFloats(run.key_dim));
  ClearOutput(run);
  for (int64_t t = 0; t < run.count; ++t) {
    const auto read = [&] {
      const float* q = run.q + t * run.q_stride;
      float* o = run.o + t * run.o_stride;
      state.Read(q, o);
      keys.Read(q, run.v, run.v_stride, o, run.value_dim);
    };
    if (run.bonus != nullptr) read();
    state.Next();
    keys.Next();
    if (run.bonus == nullptr) read();
  }
  state.DecayState();
  keys.AddTo(run.S, run.v, run.v_stride, run.value_dim);
  return Finish(run);
}

int64_t Compute(const DecayRun& run, int64_t position, Form form) {
  switch (form) {
    case Form::kRecurrent:
      return DecayRecurrent(run);
    case Form::kChunkwise: {
      AlignedBuffer<float> scratch(DecayChunkScratch(run, kChunkTokens));
      return DecayChunkwise(run, position, kChunkTokens, scratch.data());
    }
    case Form::kParallel: {
      AlignedBuffer<float> scratch(DecayParallelScratch(run));
      return DecayParallel(run, scratch.data());
    }
  }
  return 0;
}

}  // namespace fermata
#endif  // HWY_ONCE
