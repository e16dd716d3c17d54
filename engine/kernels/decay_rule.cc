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

// S and the numerator for the value columns of one vector, token after token. The sum over channels
// goes into two accumulators, for the even and the odd ones, whatever the width of a vector.
template <bool kPerChannel, bool kBonus, class D>
HWY_INLINE void ScanColumns(D d, const DecayRun& run, int64_t column) {
  const Decays decays = DecaysOf(run);
  const int64_t stride = run.value_dim;
  auto shared_decay = hn::Set(d, 1.0f);
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    const float* HWY_RESTRICT w = decays.At(t);
    float* HWY_RESTRICT s = run.S + column;
    const auto v = hn::LoadU(d, run.v + t * run.v_stride + column);
    if (!kPerChannel && decays.values != nullptr) shared_decay = hn::Set(d, *w);
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    const auto advance = [&](int64_t i, auto before) HWY_ATTR {
      const auto decay = kPerChannel ? hn::Set(d, w[i]) : shared_decay;
      return hn::MulAdd(hn::Set(d, k[i]), v, hn::Mul(decay, before));
    };
    int64_t i = 0;
    for (; i + 2 <= run.key_dim; i += 2, s += 2 * stride) {
      const auto before0 = hn::LoadU(d, s);
      const auto before1 = hn::LoadU(d, s + stride);
      const auto after0 = advance(i, before0);
      const auto after1 = advance(i + 1, before1);
      hn::StoreU(after0, d, s);
      hn::StoreU(after1, d, s + stride);
      even = hn::MulAdd(hn::Set(d, q[i]), kBonus ? before0 : after0, even);
      odd = hn::MulAdd(hn::Set(d, q[i + 1]), kBonus ? before1 : after1, odd);
    }
    if (i < run.key_dim) {
      const auto before = hn::LoadU(d, s);
      const auto after = advance(i, before);
      hn::StoreU(after, d, s);
      even = hn::MulAdd(hn::Set(d, q[i]), kBonus ? before : after, even);
    }
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
  const bool per_channel = DecaysOf(run).per_channel;
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
