#include "engine/kernels/softmax_weights.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/softmax_weights.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums run in this many partial sums whatever the width of the machine's vectors, so that their order,
// and with it their bits, is the same everywhere.
constexpr int64_t kSumLanes = 8;
using Doubles = hn::CappedTag<double, kSumLanes>;
using Floats = hn::Rebind<float, Doubles>;
using Wide = hn::Vec<Doubles>;
constexpr Doubles kDoubles{};
constexpr Floats kFloats{};
constexpr int64_t kWidth = hn::MaxLanes(Doubles());
constexpr int64_t kVectors = kSumLanes / kWidth;

HWY_INLINE Wide Constant(double value) { return hn::Set(kDoubles, value); }

// e^x for x in [-708, 0]; 0 for smaller x and NaN. x = n ln 2 + 8 r with |r| <= ln 2 / 16; e^r by its
// series up to r^7, whose rest is 3e-16, then squared three times.
HWY_INLINE Wide ExpOfNegative(Wide x) {
  // Added to a number, leaves its nearest integer in the low bits.
  const Wide shifter = Constant(0x1.8p52);
  const Wide shifted = hn::MulAdd(x, Constant(1.44269504088896338700), shifter);
  const Wide n = hn::Sub(shifted, shifter);
  // ln 2 in two parts, the first with few enough bits for n times it to be exact.
  const Wide reduced = hn::NegMulAdd(n, Constant(0x1.a39ef35793c76p-33),
                                     hn::NegMulAdd(n, Constant(0x1.62e42feep-1), x));
  const Wide r = hn::Mul(reduced, Constant(1.0 / 8));
  const Wide r2 = hn::Mul(r, r);
  const auto pair = [&](double even, double odd) {
    return hn::MulAdd(Constant(odd), r, Constant(even));
  };
  const Wide low = hn::MulAdd(r2, pair(1.0 / 2, 1.0 / 6), pair(1, 1));
  const Wide high = hn::MulAdd(r2, pair(1.0 / 720, 1.0 / 5040), pair(1.0 / 24, 1.0 / 120));
  Wide power = hn::MulAdd(hn::Mul(r2, r2), high, low);
  for (int i = 0; i < 3; ++i) power = hn::Mul(power, power);
  const hn::RebindToUnsigned<Doubles> bits;
  const auto exponent =
      hn::ShiftLeft<52>(hn::Add(hn::BitCast(bits, shifted), hn::Set(bits, uint64_t{1023})));
  return hn::IfThenElseZero(hn::Ge(x, Constant(-708)),
                            hn::Mul(power, hn::BitCast(kDoubles, exponent)));
}

// Sums of every eighth number.
struct PartialSums {
  Wide vectors[kVectors];

  PartialSums() {
    for (Wide& vector : vectors) vector = hn::Zero(kDoubles);
  }
  double Total() const {
    HWY_ALIGN double lanes[kSumLanes];
    for (int64_t v = 0; v < kVectors; ++v) hn::Store(vectors[v], kDoubles, lanes + v * kWidth);
    for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }
};

// Calls block(b, logits of block b) for each, the last one filled up with -∞.
template <typename Function>
HWY_INLINE void EachBlock(const float* logits, int64_t count, Function block) {
  const int64_t whole = count / kVocabularyBlock;
  for (int64_t b = 0; b < whole; ++b) block(b, logits + b * kVocabularyBlock);
  const int64_t rest = count - whole * kVocabularyBlock;
  if (rest == 0) return;
  float last[kVocabularyBlock];
  std::fill_n(last, kVocabularyBlock, -std::numeric_limits<float>::infinity());
  std::memcpy(last, logits + whole * kVocabularyBlock, rest * sizeof(float));
  block(whole, last);
}

void BlockMaximaImpl(const float* logits, int64_t count, float* maxima) {
  const hn::CappedTag<float, 16> tag;
  constexpr int64_t kLanes = hn::MaxLanes(tag);
  const auto largest_float = hn::Set(tag, std::numeric_limits<float>::max());
  EachBlock(logits, count, [&](int64_t b, const float* block) {
    auto largest = hn::Set(tag, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < kVocabularyBlock; i += kLanes) {
      const auto logit = hn::LoadU(tag, block + i);
      largest = hn::IfThenElse(hn::Gt(logit, largest), logit, largest);  // Not for NaN.
    }
    maxima[b] = hn::GetLane(hn::Min(hn::MaxOfLanes(tag, largest), largest_float));
  });
}

int64_t PlacesFromImpl(float least, const float* block, int64_t count, int32_t* places) {
  const hn::CappedTag<float, 16> tag;
  const hn::RebindToSigned<decltype(tag)> integers;
  constexpr int64_t kLanes = hn::MaxLanes(tag);
  float filled[kVocabularyBlock];
  if (count < kVocabularyBlock) {
    std::fill_n(filled, kVocabularyBlock, std::numeric_limits<float>::quiet_NaN());
    std::memcpy(filled, block, count * sizeof(float));
    block = filled;
  }
  int64_t found = 0;
  for (int64_t i = 0; i < kVocabularyBlock; i += kLanes) {
    const auto reach =
        hn::RebindMask(integers, hn::Ge(hn::LoadU(tag, block + i), hn::Set(tag, least)));
    // A whole vector is stored: compressing into memory is slow on some machines.
    hn::StoreU(hn::Compress(hn::Iota(integers, static_cast<int32_t>(i)), reach), integers,
               places + found);
    found += static_cast<int64_t>(hn::CountTrue(integers, reach));
  }
  return found;
}

void SoftmaxWeightsImpl(const float* logits, int64_t count, double largest, double temperature,
                        double* weights, double* sums) {
  // Dividing takes longer than all else. Never infinite, as the largest logit gives 0 times this.
  const Wide scale = Constant(std::min(1 / temperature, std::numeric_limits<double>::max()));
  const Wide top = Constant(largest);
  const auto largest_float = hn::Set(kFloats, std::numeric_limits<float>::max());
  EachBlock(logits, count, [&](int64_t b, const float* block) {
    PartialSums partial;
    double* out = weights + b * kVocabularyBlock;
    for (int64_t i = 0; i < kVocabularyBlock; i += kSumLanes) {
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = i + v * kWidth;
        const auto logit = hn::LoadU(kFloats, block + at);
        const auto usable = hn::IfThenElse(hn::Gt(logit, largest_float), largest_float, logit);
        const Wide x = hn::Mul(hn::Sub(hn::PromoteTo(kDoubles, usable), top), scale);
        const Wide weight = ExpOfNegative(x);
        hn::StoreU(weight, kDoubles, out + at);
        partial.vectors[v] = hn::Add(partial.vectors[v], weight);
      }
    }
    sums[b] = partial.Total();
  });
}

Mass MassFromImpl(double least, const double* weights, int64_t blocks) {
  const Wide bound = Constant(least);
  PartialSums sums;
  PartialSums counts;
  for (int64_t i = 0; i < blocks * kVocabularyBlock; i += kSumLanes) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const Wide weight = hn::LoadU(kDoubles, weights + i + v * kWidth);
      const auto counted = hn::Ge(weight, bound);
      sums.vectors[v] = hn::Add(sums.vectors[v], hn::IfThenElseZero(counted, weight));
      counts.vectors[v] = hn::Add(counts.vectors[v], hn::IfThenElseZero(counted, Constant(1)));
    }
  }
  return {.count = static_cast<int64_t>(counts.Total()), .sum = sums.Total()};
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(BlockMaximaImpl);
HWY_EXPORT(PlacesFromImpl);
HWY_EXPORT(SoftmaxWeightsImpl);
HWY_EXPORT(MassFromImpl);

void BlockMaxima(const float* logits, int64_t count, float* maxima) {
  HWY_DYNAMIC_DISPATCH(BlockMaximaImpl)(logits, count, maxima);
}

int64_t PlacesFrom(float least, const float* block, int64_t count, int32_t* places) {
  return HWY_DYNAMIC_DISPATCH(PlacesFromImpl)(least, block, count, places);
}

void SoftmaxWeights(const float* logits, int64_t count, double largest, double temperature,
                    double* weights, double* sums) {
  HWY_DYNAMIC_DISPATCH(SoftmaxWeightsImpl)(logits, count, largest, temperature, weights, sums);
}

double BlockSum(const double* weights) {
  return HWY_DYNAMIC_DISPATCH(MassFromImpl)(0, weights, 1).sum;
}

Mass MassFrom(double least, const double* weights, int64_t blocks) {
  return HWY_DYNAMIC_DISPATCH(MassFromImpl)(least, weights, blocks);
}

}  // namespace fermata
#endif  // HWY_ONCE
