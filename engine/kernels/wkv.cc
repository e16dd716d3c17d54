#include "engine/kernels/wkv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/wkv.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

// The maximum of nothing: less than any key, and yet nothing infinite comes of it.
constexpr float kLowest = -1e38f;

// Sums of e^(…) v and e^(…), both divided by e^max, of the channels of one vector.
struct Sums {
  Vec num;
  Vec den;
  Vec max;
};

HWY_INLINE Sums Empty() { return {hn::Zero(kTag), hn::Zero(kTag), hn::Set(kTag, kLowest)}; }

// The sums of a and of b together. Associative, and Empty() changes nothing.
HWY_INLINE Sums Combine(const Sums& a, const Sums& b) {
  const Vec distance = hn::Sub(a.max, b.max);
  const Vec less = VectorExp(hn::Neg(hn::Abs(distance)));
  const Vec one = hn::Set(kTag, 1.0f);
  const auto a_leads = hn::Ge(distance, hn::Zero(kTag));
  const Vec from_a = hn::IfThenElse(a_leads, one, less);
  const Vec from_b = hn::IfThenElse(a_leads, less, one);
  return {hn::MulAdd(from_a, a.num, hn::Mul(from_b, b.num)),
          hn::MulAdd(from_a, a.den, hn::Mul(from_b, b.den)), hn::Max(a.max, b.max)};
}

// The sum of one token's value alone.
HWY_INLINE Sums Token(Vec exponent, Vec v) { return {v, hn::Set(kTag, 1.0f), exponent}; }

// The sums after `tokens` more tokens.
HWY_INLINE Sums Decay(const Sums& sums, Vec log_decay, int64_t tokens = 1) {
  const Vec count = hn::Set(kTag, static_cast<float>(tokens));
  return {sums.num, sums.den, hn::MulAdd(count, log_decay, sums.max)};
}

// Channels [channel, channel + count) of a run, count at most a vector.
class Channels {
 public:
  Channels(const WkvRun& run, int64_t channel)
      : run_(run), channel_(channel), count_(std::min(kVectorLanes, run.dim - channel)) {}

  // Forgets as surely as -∞ does, but 0 times it is 0.
  Vec log_decay() const { return hn::Max(Load(run_.log_decay), hn::Set(kTag, -1e30f)); }
  Vec bonus() const { return Load(run_.bonus); }
  Vec k(int64_t t) const { return Load(run_.k + t * run_.k_stride); }
  Vec v(int64_t t) const { return Load(run_.v + t * run_.v_stride); }

  Sums state() const {
    const Vec den = Load(run_.den);
    const auto empty = hn::Eq(den, hn::Zero(kTag));
    return {hn::IfThenZeroElse(empty, Load(run_.num)), den,
            hn::IfThenElse(empty, hn::Set(kTag, kLowest), Load(run_.max))};
  }
  void SetState(const Sums& sums) const {
    Store(sums.num, run_.num);
    Store(sums.den, run_.den);
    Store(sums.max, run_.max);
  }
  void SetOutput(int64_t t, const Sums& sums) const {
    Store(hn::Div(sums.num, sums.den), run_.o + t * run_.o_stride);
  }

 private:
  Vec Load(const float* row) const {
    if (HWY_LIKELY(count_ == kVectorLanes)) return hn::LoadU(kTag, row + channel_);
    HWY_ALIGN float lanes[kVectorLanes] = {};
    std::memcpy(lanes, row + channel_, count_ * sizeof(float));
    return hn::Load(kTag, lanes);
  }
  void Store(Vec x, float* row) const {
    if (HWY_LIKELY(count_ == kVectorLanes)) return hn::StoreU(x, kTag, row + channel_);
    HWY_ALIGN float lanes[kVectorLanes];
    hn::Store(x, kTag, lanes);
    std::memcpy(row + channel_, lanes, count_ * sizeof(float));
  }

  const WkvRun& run_;
  int64_t channel_;
  int64_t count_;
};

template <typename Body>
HWY_INLINE void ForEachVector(const WkvRun& run, Body body) {
  for (int64_t channel = 0; channel < run.dim; channel += kVectorLanes) {
    body(Channels(run, channel));
  }
}

void WkvScan(const WkvRun& run) {
  ForEachVector(run, [&](const Channels& channels) HWY_ATTR {
    const Vec log_decay = channels.log_decay();
    const Vec bonus = channels.bonus();
    Sums state = channels.state();
    for (int64_t t = 0; t < run.count; ++t) {
      const Vec k = channels.k(t);
      const Vec v = channels.v(t);
      channels.SetOutput(t, Combine(state, Token(hn::Add(bonus, k), v)));
      state = Combine(Decay(state, log_decay), Token(k, v));
    }
    channels.SetState(state);
  });
}

// Sums of the tokens of a chunk alone, to which the state before the chunk is added where they are
// read: chunks depend on one another through one Combine each.
void WkvChunks(const WkvRun& run, int64_t position, int64_t chunk) {
  ForEachVector(run, [&](const Channels& channels) HWY_ATTR {
    const Vec log_decay = channels.log_decay();
    const Vec bonus = channels.bonus();
    Sums state = channels.state();
    for (int64_t first = 0; first < run.count;) {
      const int64_t count = std::min(chunk - (position + first) % chunk, run.count - first);
      Sums own = Empty();
      for (int64_t n = 0; n < count; ++n) {
        const Vec k = channels.k(first + n);
        const Vec v = channels.v(first + n);
        const Sums past = Combine(Decay(state, log_decay, n), own);
        channels.SetOutput(first + n, Combine(past, Token(hn::Add(bonus, k), v)));
        own = Combine(Decay(own, log_decay), Token(k, v));
      }
      state = Combine(Decay(state, log_decay, count), own);
      first += count;
    }
    channels.SetState(state);
  });
}

// The sums over the `count` first tokens of a run and the state before it, decayed up to the last of
// them, and over one more token alone: first their maximum, then the sums with it.
HWY_INLINE Sums SumAll(const Channels& channels, const Sums& state, int64_t count,
                       const Sums& alone) {
  const Vec log_decay = channels.log_decay();
  const auto exponent = [&](int64_t s) HWY_ATTR {
    const Vec distance = hn::Set(kTag, static_cast<float>(count - 1 - s));
    return hn::MulAdd(distance, log_decay, channels.k(s));
  };
  const Sums past = Decay(state, log_decay, count);
  Vec max = hn::Max(past.max, alone.max);
  for (int64_t s = 0; s < count; ++s) max = hn::Max(max, exponent(s));
  const Vec from_past = VectorExp(hn::Sub(past.max, max));
  const Vec from_alone = VectorExp(hn::Sub(alone.max, max));
  Vec num = hn::MulAdd(from_past, past.num, hn::Mul(from_alone, alone.num));
  Vec den = hn::MulAdd(from_past, past.den, hn::Mul(from_alone, alone.den));
  for (int64_t s = 0; s < count; ++s) {
    const Vec weight = VectorExp(hn::Sub(exponent(s), max));
    num = hn::MulAdd(weight, channels.v(s), num);
    den = hn::Add(weight, den);
  }
  return {num, den, max};
}

void WkvPairs(const WkvRun& run) {
  ForEachVector(run, [&](const Channels& channels) HWY_ATTR {
    const Vec bonus = channels.bonus();
    const Sums state = channels.state();
    for (int64_t t = 0; t < run.count; ++t) {
      const Sums own = Token(hn::Add(bonus, channels.k(t)), channels.v(t));
      channels.SetOutput(t, SumAll(channels, state, t, own));
    }
    channels.SetState(SumAll(channels, state, run.count, Empty()));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(WkvScan);
HWY_EXPORT(WkvChunks);
HWY_EXPORT(WkvPairs);

void WkvRecurrent(const WkvRun& run) { HWY_DYNAMIC_DISPATCH(WkvScan)(run); }

void WkvChunkwise(const WkvRun& run, int64_t position, int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(WkvChunks)(run, position, chunk);
}

void WkvParallel(const WkvRun& run) { HWY_DYNAMIC_DISPATCH(WkvPairs)(run); }

void Compute(const WkvRun& run, int64_t position, Form form) {
  switch (form) {
    case Form::kRecurrent:
      return WkvRecurrent(run);
    case Form::kChunkwise:
      return WkvChunkwise(run, position, kChunkTokens);
    case Form::kParallel:
      return WkvParallel(run);
  }
}

}  // namespace fermata
#endif  // HWY_ONCE
