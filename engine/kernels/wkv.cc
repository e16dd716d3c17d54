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

// The sums of a and of b together.
HWY_INLINE Sums Combine(const Sums& a, const Sums& b) {
  const Vec max = hn::Max(a.max, b.max);
  const Vec from_a = VectorExp(hn::Sub(a.max, max));
  const Vec from_b = VectorExp(hn::Sub(b.max, max));
  return {hn::MulAdd(from_a, a.num, hn::Mul(from_b, b.num)),
          hn::MulAdd(from_a, a.den, hn::Mul(from_b, b.den)), max};
}

// The sum of one token's value alone.
HWY_INLINE Sums Token(Vec exponent, Vec v) { return {v, hn::Set(kTag, 1.0f), exponent}; }

HWY_INLINE Sums Decay(const Sums& sums, Vec log_decay) {
  return {sums.num, sums.den, hn::Add(sums.max, log_decay)};
}

// Channels [channel, channel + count) of a run, count at most a vector.
class Channels {
 public:
  Channels(const WkvRun& run, int64_t channel)
      : run_(run), channel_(channel), count_(std::min(kVectorLanes, run.dim - channel)) {}

  Vec log_decay() const { return Load(run_.log_decay); }
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

void WkvScan(const WkvRun& run) {
  for (int64_t channel = 0; channel < run.dim; channel += kVectorLanes) {
    const Channels channels(run, channel);
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
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(WkvScan);

void WkvRecurrent(const WkvRun& run) { HWY_DYNAMIC_DISPATCH(WkvScan)(run); }

void Compute(const WkvRun& run, int64_t, Form) { WkvRecurrent(run); }

}  // namespace fermata
#endif  // HWY_ONCE
