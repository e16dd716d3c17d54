#include "engine/kernels/delta_rule.h"

#include <algorithm>

#include "engine/base/aligned_buffer.h"
#include "engine/kernels/block_product.h"
#include "engine/kernels/chunk_decay.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/past_keys.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/delta_rule.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// Vectors of value columns that a scan takes at once, as far as there are registers: rows of a state
// that leaves the cache between two tokens are then read from one end to the other.
constexpr int kWideVectors = kVectorLanes == 16 ? 4 : 2;

// u = xᵀ S for the value columns of kVectors vectors. Here and below a sum over channels goes into
// two accumulators, for the even and the odd ones, whatever the width and number of vectors.
template <class D, int kVectors>
HWY_INLINE void ReadColumns(D d, const float* HWY_RESTRICT x, const float* HWY_RESTRICT s,
                            const DeltaRun& run, hn::Vec<D> (&u)[kVectors]) {
  constexpr int64_t kColumns = hn::MaxLanes(D());
  hn::Vec<D> odd[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) u[v] = odd[v] = hn::Zero(d);
  const auto add = [&](int64_t i, hn::Vec<D>(&sums)[kVectors]) HWY_ATTR
      __attribute__((always_inline)) {
    const auto factor = hn::Set(d, x[i]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = hn::MulAdd(factor, hn::LoadU(d, s + i * run.value_dim + v * kColumns), sums[v]);
    }
  };
  int64_t i = 0;
  for (; i + 2 <= run.key_dim; i += 2) {
    add(i, u);
    add(i + 1, odd);
  }
  if (i < run.key_dim) add(i, u);
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) u[v] = hn::Add(u[v], odd[v]);
}

// S and o for the value columns of kVectors vectors, token after token.
template <bool kPerChannel, bool kOwnB, int kVectors, class D>
HWY_INLINE void ScanColumns(D d, const DeltaRun& run, int64_t column) {
  constexpr int64_t kColumns = hn::MaxLanes(D());
  const Decays decays = DecaysOf(run);
  float* HWY_RESTRICT S = run.S + column;
  const float* next_S = (run.next_S == nullptr ? run.S : run.next_S) + column;
  auto shared_decay = hn::Set(d, 1.0f);
  for (int64_t t = 0; t < run.count; ++t) {
    const float* HWY_RESTRICT q = run.q + t * run.q_stride;
    const float* HWY_RESTRICT k = run.k + t * run.k_stride;
    const float* HWY_RESTRICT b = kOwnB ? run.b + t * run.b_stride : nullptr;
    const float* HWY_RESTRICT w = decays.At(t);
    hn::Vec<D> u[kVectors];
    hn::Vec<D> values[kVectors];
    hn::Vec<D> even[kVectors];
    hn::Vec<D> odd[kVectors];
    ReadColumns(d, run.a + t * run.a_stride, S, run, u);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      values[v] = hn::LoadU(d, run.v + t * run.v_stride + column + v * kColumns);
      if (!kOwnB) values[v] = hn::Sub(values[v], u[v]);
      even[v] = odd[v] = hn::Zero(d);
    }
    if (!kPerChannel && decays.values != nullptr) shared_decay = hn::Set(d, *w);
    const auto advance = [&](int64_t i, hn::Vec<D>(&sums)[kVectors]) HWY_ATTR
        __attribute__((always_inline)) {
      float* HWY_RESTRICT row = S + i * run.value_dim;
      if (t == 0) FetchLines<kVectors * kColumns>(next_S + i * run.value_dim);
      const auto decay = kPerChannel ? hn::Set(d, w[i]) : shared_decay;
      const auto k_i = hn::Set(d, k[i]);
      const auto q_i = hn::Set(d, q[i]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        auto after = hn::MulAdd(k_i, values[v], hn::Mul(decay, hn::LoadU(d, row + v * kColumns)));
        if constexpr (kOwnB) after = hn::MulAdd(hn::Set(d, b[i]), u[v], after);
        hn::StoreU(after, d, row + v * kColumns);
        sums[v] = hn::MulAdd(q_i, after, sums[v]);
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
template <bool kPerChannel, bool kOwnB, int kVectors, class D>
void Scan(D d, const DeltaRun& run, int64_t column) {
  constexpr int64_t kColumns = kVectors * hn::MaxLanes(D());
  for (; column + kColumns <= run.value_dim; column += kColumns) {
    ScanColumns<kPerChannel, kOwnB, kVectors>(d, run, column);
  }
  if constexpr (kVectors > 1) {
    Scan<kPerChannel, kOwnB, 1>(d, run, column);
  } else if constexpr (hn::MaxLanes(D()) > 1) {
    Scan<kPerChannel, kOwnB, 1>(hn::Half<D>(), run, column);
  }
}

void DeltaScan(const DeltaRun& run) {
  const bool per_channel = DecaysOf(run).per_channel;
  if (run.b == nullptr) {
    per_channel ? Scan<true, false, kWideVectors>(kTag, run, 0)
                : Scan<false, false, kWideVectors>(kTag, run, 0);
  } else {
    per_channel ? Scan<true, true, kWideVectors>(kTag, run, 0)
                : Scan<false, true, kWideVectors>(kTag, run, 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(DeltaScan);

namespace {

// The run of `count` tokens that starts at token `first` of `run`.
DeltaRun Part(const DeltaRun& run, int64_t first, int64_t count) {
  DeltaRun part = run;
  part.count = count;
  part.q += first * run.q_stride;
  part.k += first * run.k_stride;
  part.v += first * run.v_stride;
  part.a += first * run.a_stride;
  if (run.b != nullptr) part.b += first * run.b_stride;
  part.o += first * run.o_stride;
  if (run.decay != nullptr) part.decay += first * run.decay_stride;
  return part;
}

// One chunk in the making. a and q look back at the keys k, and at the keys b where they are the
// run's own: readers, keys and scores of ChunkDecay.
struct ChunkParts {
  ChunkParts(const DeltaRun& run, float* scratch);
  static int64_t ScratchFloats(const DeltaRun& run, int64_t count);

  float* keys_k;     // [key_dim, padded]
  float* keys_b;     // [key_dim, padded]
  float* scores_ak;  // [count, padded], as all scores.
  float* scores_ab;
  float* scores_qk;
  float* scores_qb;
  float* readers;  // [count, key_dim]
  // What the state takes up under the keys b: u. Where b is -k, under the keys k: v - u.
  float* u;  // [count, value_dim]
  ChunkDecay decay;
};

int64_t ChunkParts::ScratchFloats(const DeltaRun& run, int64_t count) {
  return 2 * run.key_dim * PaddedTokens(count) + 4 * count * PaddedTokens(count) +
         count * (run.key_dim + run.value_dim) + ChunkDecay::ScratchFloats(count, run.key_dim);
}

ChunkParts::ChunkParts(const DeltaRun& run, float* scratch)
    : keys_k(scratch),
      keys_b(keys_k + run.key_dim * PaddedTokens(run.count)),
      scores_ak(keys_b + run.key_dim * PaddedTokens(run.count)),
      scores_ab(scores_ak + run.count * PaddedTokens(run.count)),
      scores_qk(scores_ab + run.count * PaddedTokens(run.count)),
      scores_qb(scores_qk + run.count * PaddedTokens(run.count)),
      readers(scores_qb + run.count * PaddedTokens(run.count)),
      u(readers + run.count * run.key_dim),
      decay(DecaysOf(run), run.count, run.key_dim, u + run.count * run.value_dim) {}

void Score(const DeltaRun& run, const ChunkParts& parts) {
  parts.decay.Score({.y = run.k,
                     .stride = run.k_stride,
                     .before = {run.a, run.a_stride, parts.scores_ak},
                     .after = {run.q, run.q_stride, parts.scores_qk},
                     .keys = parts.keys_k});
  if (run.b == nullptr) return;
  parts.decay.Score({.y = run.b,
                     .stride = run.b_stride,
                     .before = {run.a, run.a_stride, parts.scores_ab},
                     .after = {run.q, run.q_stride, parts.scores_qb},
                     .keys = parts.keys_b});
}

// out [count, value_dim] += readers · S.
void ReadState(const DeltaRun& run, const ChunkParts& parts, float* out, int64_t stride) {
  MultiplyAccumulate({.a = parts.readers,
                      .a_stride = run.key_dim,
                      .b = run.S,
                      .b_stride = run.value_dim,
                      .c = out,
                      .c_stride = stride,
                      .rows = run.count,
                      .inner = run.key_dim,
                      .columns = run.value_dim});
}

// With A the decayed rows of a and S the state before the chunk, u = A S + P(a,k) v + P(a,b) u; or,
// where b is -k, the unknown is x = v - u: x = v - A S - P(a,k) x.
void Solve(const DeltaRun& run, const ChunkParts& parts) {
  const int64_t count = run.count;
  parts.decay.DecayReaders(run.a, run.a_stride, true, parts.readers);
  if (run.b != nullptr) {
    std::fill_n(parts.u, count * run.value_dim, 0.0f);
    ReadState(run, parts, parts.u, run.value_dim);
    MultiplyTriangular({.scores = parts.scores_ak,
                        .b = run.v,
                        .b_stride = run.v_stride,
                        .c = parts.u,
                        .c_stride = run.value_dim,
                        .count = count,
                        .columns = run.value_dim});
    SolveTriangular(parts.scores_ab, count, parts.u, run.value_dim);
    return;
  }
  for (int64_t t = 0; t < count; ++t) {
    std::copy_n(run.v + t * run.v_stride, run.value_dim, parts.u + t * run.value_dim);
  }
  Scale(-1, parts.readers, count * run.key_dim);
  ReadState(run, parts, parts.u, run.value_dim);
  Scale(-1, parts.scores_ak, count * PaddedTokens(count));
  SolveTriangular(parts.scores_ak, count, parts.u, run.value_dim);
}

// What one set of keys adds to o and to S, having taken up `values` [count, value_dim].
struct TakenUp {
  const float* scores;
  const float* keys;
  const float* values;
  int64_t stride;
};

void AddOutput(const DeltaRun& run, const TakenUp& taken) {
  MultiplyTriangular({.scores = taken.scores,
                      .b = taken.values,
                      .b_stride = taken.stride,
                      .c = run.o,
                      .c_stride = run.o_stride,
                      .count = run.count,
                      .columns = run.value_dim});
}

void AddState(const DeltaRun& run, const TakenUp& taken) {
  MultiplyAccumulate({.a = taken.keys,
                      .a_stride = PaddedTokens(run.count),
                      .b = taken.values,
                      .b_stride = taken.stride,
                      .c = run.S,
                      .c_stride = run.value_dim,
                      .rows = run.key_dim,
                      .inner = run.count,
                      .columns = run.value_dim});
}

void Chunk(const DeltaRun& run, float* scratch) {
  const ChunkParts parts(run, scratch);
  Score(run, parts);
  Solve(run, parts);
  TakenUp by_k{parts.scores_qk, parts.keys_k, parts.u, run.value_dim};
  const TakenUp by_b{parts.scores_qb, parts.keys_b, parts.u, run.value_dim};
  if (run.b != nullptr) {
    by_k.values = run.v;
    by_k.stride = run.v_stride;
  }

  parts.decay.DecayReaders(run.q, run.q_stride, false, parts.readers);
  for (int64_t t = 0; t < run.count; ++t) {
    std::fill_n(run.o + t * run.o_stride, run.value_dim, 0.0f);
  }
  ReadState(run, parts, run.o, run.o_stride);
  AddOutput(run, by_k);
  if (run.b != nullptr) AddOutput(run, by_b);

  parts.decay.DecayState(run.S, run.value_dim);
  AddState(run, by_k);
  if (run.b != nullptr) AddState(run, by_b);
}

}  // namespace

void DeltaRecurrent(const DeltaRun& run) { HWY_DYNAMIC_DISPATCH(DeltaScan)(run); }

int64_t DeltaChunkScratch(const DeltaRun& run, int64_t chunk) {
  return ChunkParts::ScratchFloats(run, std::min(run.count, chunk));
}

void DeltaChunkwise(const DeltaRun& run, int64_t position, int64_t chunk, float* scratch) {
  for (int64_t first = 0; first < run.count;) {
    const int64_t count = std::min(chunk - (position + first) % chunk, run.count - first);
    Chunk(Part(run, first, count), scratch);
    first += count;
  }
}

int64_t DeltaParallelScratch(const DeltaRun& run) {
  return PastState::ScratchFloats(run.key_dim) +
         2 * PastKeys::ScratchFloats(run.count, run.key_dim) + run.count * run.value_dim;
}

void DeltaParallel(const DeltaRun& run, float* scratch) {
  const Decays decays = DecaysOf(run);
  const int64_t values = run.value_dim;
  const int64_t keys_floats = PastKeys::ScratchFloats(run.count, run.key_dim);
  float* u = scratch;  // [count, value_dim]; v - u where b is -k.
  float* rest = u + run.count * values;
  const bool own_b = run.b != nullptr;
  PastKeys k(decays, run.count, run.key_dim, run.k, run.k_stride, rest);
  PastKeys b(decays, run.count, run.key_dim, own_b ? run.b : run.k,
             own_b ? run.b_stride : run.k_stride, rest + keys_floats);
  PastState state(decays, run.key_dim, run.S, values, rest + 2 * keys_floats);
  const float* taken = own_b ? run.v : u;
  const int64_t taken_stride = own_b ? run.v_stride : values;
  const auto read = [&](const float* x, float* out) {
    std::fill_n(out, values, 0.0f);
    state.Read(x, out);
    k.Read(x, taken, taken_stride, out, values);
    if (own_b) b.Read(x, u, values, out, values);
  };
  for (int64_t t = 0; t < run.count; ++t) {
    float* unknown = u + t * values;
    read(run.a + t * run.a_stride, unknown);
    if (!own_b) {
      Scale(-1, unknown, values);
      Add(run.v + t * run.v_stride, unknown, values);
    }
    state.Next();
    k.Next();
    b.Next();
    read(run.q + t * run.q_stride, run.o + t * run.o_stride);
  }
  state.DecayState();
  k.AddTo(run.S, taken, taken_stride, values);
  if (own_b) b.AddTo(run.S, u, values, values);
}

int64_t Compute(const DeltaRun& run, int64_t position, Form form) {
  switch (form) {
    case Form::kRecurrent:
      DeltaRecurrent(run);
      break;
    case Form::kChunkwise: {
      AlignedBuffer<float> scratch(DeltaChunkScratch(run, kChunkTokens));
      DeltaChunkwise(run, position, kChunkTokens, scratch.data());
      break;
    }
    case Form::kParallel: {
      AlignedBuffer<float> scratch(DeltaParallelScratch(run));
      DeltaParallel(run, scratch.data());
      break;
    }
  }
  return 0;
}

}  // namespace fermata
#endif  // HWY_ONCE
