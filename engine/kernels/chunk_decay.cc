#include "engine/kernels/chunk_decay.h"

#include <algorithm>

#include "engine/kernels/block_product.h"
#include "engine/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/chunk_decay.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

#ifndef FERMATA_ENGINE_KERNELS_CHUNK_DECAY_ONCE
#define FERMATA_ENGINE_KERNELS_CHUNK_DECAY_ONCE
namespace fermata {

// Tokens whose scores are computed while their keys decay, one token after another.
inline constexpr int64_t kBlock = 16;

// A block of at most kBlock tokens, with decays per channel.
struct TokenBlock {
  int64_t count = 0;
  int64_t key_dim = 0;
  int64_t stride = 0;  // Of the rows of keys and of scores.
  Decays decays;
  Readers before;
  Readers after;
  float* keys = nullptr;  // yᵀ [key_dim, kBlock], not decayed yet.
};

}  // namespace fermata
#endif  // FERMATA_ENGINE_KERNELS_CHUNK_DECAY_ONCE

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

static_assert(kBlock == kLanes);

// The scores of row t and of kVectorLanes keys from `lane` on, and the decay of those keys by t. The
// sum over channels goes into two accumulators, for the even and the odd ones.
template <bool kBefore, bool kAfter>
HWY_INLINE void ScoreToken(const TokenBlock& block, int64_t t, int64_t lane) {
  const float* HWY_RESTRICT w = block.decays.At(t);
  const float* HWY_RESTRICT x_before = block.before.x + t * block.before.stride;
  const float* HWY_RESTRICT x_after = block.after.x + t * block.after.stride;
  float* HWY_RESTRICT keys = block.keys + lane;
  const Vec one = hn::Set(kTag, 1.0f);
  const Vec age = hn::Sub(hn::Set(kTag, static_cast<float>(t - lane)), hn::Iota(kTag, 0));
  const auto past = hn::Gt(age, hn::Zero(kTag));
  Vec before[2] = {hn::Zero(kTag), hn::Zero(kTag)};
  Vec after[2] = {hn::Zero(kTag), hn::Zero(kTag)};
  const auto step = [&](int64_t i, int64_t parity) HWY_ATTR {
    Vec key = hn::LoadU(kTag, keys);
    if constexpr (kBefore) {
      before[parity] = hn::MulAdd(hn::Set(kTag, x_before[i]), key, before[parity]);
    }
    key = hn::Mul(key, hn::IfThenElse(past, hn::Set(kTag, w[i]), one));
    hn::StoreU(key, kTag, keys);
    if constexpr (kAfter) after[parity] = hn::MulAdd(hn::Set(kTag, x_after[i]), key, after[parity]);
    keys += block.stride;
  };
  int64_t i = 0;
  for (; i + 2 <= block.key_dim; i += 2) {
    step(i, 0);
    step(i + 1, 1);
  }
  if (i < block.key_dim) step(i, 0);
  const int64_t at = t * block.stride + lane;
  if constexpr (kBefore) {
    const Vec sum = hn::Add(before[0], before[1]);
    hn::StoreU(hn::IfThenElseZero(past, sum), kTag, block.before.scores + at);
  }
  if constexpr (kAfter) {
    const Vec sum = hn::Add(after[0], after[1]);
    const auto seen = hn::Ge(age, hn::Zero(kTag));
    hn::StoreU(hn::IfThenElseZero(seen, sum), kTag, block.after.scores + at);
  }
}

template <bool kBefore, bool kAfter>
void ScoreTokens(const TokenBlock& block) {
  for (int64_t lane = 0; lane < kBlock; lane += kVectorLanes) {
    for (int64_t t = 0; t < block.count; ++t) ScoreToken<kBefore, kAfter>(block, t, lane);
  }
}

void ScoreBlock(const TokenBlock& block) {
  if (block.before.x == nullptr) return ScoreTokens<false, true>(block);
  if (block.after.x == nullptr) return ScoreTokens<true, false>(block);
  ScoreTokens<true, true>(block);
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(ScoreBlock);

namespace {

// Calls body(begin, end) for every block of [0, count).
template <class Body>
void ForEachBlock(int64_t count, Body body) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    body(begin, std::min(begin + kBlock, count));
  }
}

}  // namespace

int64_t ChunkDecay::ScratchFloats(int64_t count, int64_t key_dim) {
  return count * std::max(key_dim, PaddedTokens(count)) + kBlock * key_dim;
}

ChunkDecay::ChunkDecay(const Decays& decays, int64_t count, int64_t key_dim, float* scratch)
    : decays_(decays),
      count_(count),
      key_dim_(key_dim),
      padded_(PaddedTokens(count)),
      products_(scratch),
      rows_(scratch + count * std::max(key_dim, padded_)) {
  Prepare();
}

void ChunkDecay::Prepare() {
  if (decays_.values == nullptr) return;
  for (int64_t t = 0; t < count_; ++t) {
    if (!decays_.per_channel) {
      float* row = products_ + t * padded_;
      if (t > 0) Scale(*decays_.At(t), row - padded_, row, t);
      row[t] = 1;
    } else if (t % kBlock == 0) {
      std::copy_n(decays_.At(t), key_dim_, BlockPrefix(t));
    } else {
      std::copy_n(BlockPrefix(t - 1), key_dim_, BlockPrefix(t));
      Multiply(decays_.At(t), BlockPrefix(t), key_dim_);
    }
  }
}

float ChunkDecay::Prefix(int64_t t) const {
  return t < 0 ? 1.0f : products_[t * padded_] * *decays_.At(0);
}

void ChunkDecay::Score(const ScoredKeys& keys) const {
  Transpose(keys.y, keys.stride, count_, key_dim_, keys.keys, padded_);
  for (int64_t i = 0; i < key_dim_; ++i) {
    std::fill(keys.keys + i * padded_ + count_, keys.keys + (i + 1) * padded_, 0.0f);
  }
  for (const Readers& readers : {keys.before, keys.after}) {
    if (readers.x != nullptr) std::fill_n(readers.scores, count_ * padded_, 0.0f);
  }
  if (decays_.values == nullptr || !decays_.per_channel) {
    ScoreShared(keys.before, true, keys.keys);
    ScoreShared(keys.after, false, keys.keys);
    if (decays_.values == nullptr) return;
    const float* to_end = products_ + (count_ - 1) * padded_;
    for (int64_t i = 0; i < key_dim_; ++i) Multiply(to_end, keys.keys + i * padded_, count_);
    return;
  }
  ForEachBlock(count_, [&](int64_t begin, int64_t end) {
    ScoreEarlierBlocks(keys.before, true, keys.keys, begin, end);
    ScoreEarlierBlocks(keys.after, false, keys.keys, begin, end);
    ScoreOwnBlock(keys, begin, end);
    for (int64_t i = 0; i < key_dim_; ++i) {
      Scale(BlockPrefix(end - 1)[i], keys.keys + i * padded_, begin);
    }
  });
}

// Decays that the channels share multiply the products of rows and keys afterwards.
void ChunkDecay::ScoreShared(const Readers& readers, bool before, const float* keys) const {
  if (readers.x == nullptr) return;
  ForEachBlock(count_, [&](int64_t begin, int64_t end) {
    MultiplyAccumulate({.a = readers.x + begin * readers.stride,
                        .a_stride = readers.stride,
                        .b = keys,
                        .b_stride = padded_,
                        .c = readers.scores + begin * padded_,
                        .c_stride = padded_,
                        .rows = end - begin,
                        .inner = key_dim_,
                        .columns = end});
  });
  for (int64_t t = 0; t < count_; ++t) {
    float* row = readers.scores + t * padded_;
    const int64_t seen = before ? t : t + 1;
    if (decays_.values != nullptr && seen > 0)
      Multiply(products_ + (seen - 1) * padded_, row, seen);
    std::fill(row + seen, row + padded_, 0.0f);
  }
}

// The scores of a block's rows and the keys of the blocks before, which have been decayed up to the
// block's first token: the rest of the way is in the rows.
void ChunkDecay::ScoreEarlierBlocks(const Readers& readers, bool before, const float* keys,
                                    int64_t begin, int64_t end) const {
  if (readers.x == nullptr || begin == 0) return;
  for (int64_t t = begin; t < end; ++t) {
    float* row = rows_ + (t - begin) * key_dim_;
    std::copy_n(readers.x + t * readers.stride, key_dim_, row);
    if (!before) Multiply(BlockPrefix(t), row, key_dim_);
    if (before && t > begin) Multiply(BlockPrefix(t - 1), row, key_dim_);
  }
  MultiplyAccumulate({.a = rows_,
                      .a_stride = key_dim_,
                      .b = keys,
                      .b_stride = padded_,
                      .c = readers.scores + begin * padded_,
                      .c_stride = padded_,
                      .rows = end - begin,
                      .inner = key_dim_,
                      .columns = begin});
}

// The scores within a block; its keys come out decayed up to its end.
void ChunkDecay::ScoreOwnBlock(const ScoredKeys& keys, int64_t begin, int64_t end) const {
  const auto part = [&](Readers readers) {
    if (readers.x == nullptr) return readers;
    readers.x += begin * readers.stride;
    readers.scores += begin * padded_ + begin;
    return readers;
  };
  Decays decays = decays_;
  decays.values = decays_.At(begin);
  HWY_DYNAMIC_DISPATCH(ScoreBlock)
  ({.count = end - begin,
    .key_dim = key_dim_,
    .stride = padded_,
    .decays = decays,
    .before = part(keys.before),
    .after = part(keys.after),
    .keys = keys.keys + begin});
}

void ChunkDecay::DecayReaders(const float* x, int64_t stride, bool before, float* out) const {
  float* earlier = rows_;  // What the blocks before come to, per channel.
  std::fill_n(earlier, key_dim_, 1.0f);
  for (int64_t t = 0; t < count_; ++t) {
    float* row = out + t * key_dim_;
    std::copy_n(x + t * stride, key_dim_, row);
    if (decays_.values == nullptr) continue;
    const int64_t last = before ? t - 1 : t;
    if (!decays_.per_channel) {
      Scale(Prefix(last), row, key_dim_);
      continue;
    }
    if (t > 0 && t % kBlock == 0) Multiply(BlockPrefix(t - 1), earlier, key_dim_);
    Multiply(earlier, row, key_dim_);
    if (last >= t - t % kBlock) Multiply(BlockPrefix(last), row, key_dim_);
  }
}

void ChunkDecay::DecayState(float* S, int64_t value_dim) const {
  if (decays_.values == nullptr) return;
  if (!decays_.per_channel) return Scale(Prefix(count_ - 1), S, key_dim_ * value_dim);
  for (int64_t i = 0; i < key_dim_; ++i) {
    float product = 1;
    ForEachBlock(count_, [&](int64_t, int64_t end) { product *= BlockPrefix(end - 1)[i]; });
    Scale(product, S + i * value_dim, value_dim);
  }
}

void MultiplyTriangular(const TriangularProduct& product) {
  const int64_t stride = PaddedTokens(product.count);
  ForEachBlock(product.count, [&](int64_t begin, int64_t end) {
    MultiplyAccumulate({.a = product.scores + begin * stride,
                        .a_stride = stride,
                        .b = product.b,
                        .b_stride = product.b_stride,
                        .c = product.c + begin * product.c_stride,
                        .c_stride = product.c_stride,
                        .rows = end - begin,
                        .inner = end,
                        .columns = product.columns});
  });
}

void SolveTriangular(const float* scores, int64_t count, float* x, int64_t columns) {
  const int64_t stride = PaddedTokens(count);
  const auto substitute = [&](int64_t row, int64_t rows, int64_t from, int64_t known) {
    MultiplyAccumulate({.a = scores + row * stride + from,
                        .a_stride = stride,
                        .b = x + from * columns,
                        .b_stride = columns,
                        .c = x + row * columns,
                        .c_stride = columns,
                        .rows = rows,
                        .inner = known,
                        .columns = columns});
  };
  ForEachBlock(count, [&](int64_t begin, int64_t end) {
    substitute(begin, end - begin, 0, begin);
    for (int64_t t = begin + 1; t < end; ++t) substitute(t, 1, begin, t - begin);
  });
}

}  // namespace fermata
#endif  // HWY_ONCE
