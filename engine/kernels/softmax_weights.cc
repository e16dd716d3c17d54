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

constexpr double kLn2 = 0.69314718055994530942;

HWY_INLINE Wide Constant(double value) { return hn::Set(kDoubles, value); }

// 2^x for x in [-1021, 0]; 0 for smaller x and NaN. x = n + f with |f| <= 1/2; 2^(f/8) = e^r by the
// series of e^r up to r^7, whose rest is 3e-16 for r = f ln 2 / 8, then squared three times.
HWY_INLINE Wide Exp2OfNegative(Wide x) {
  // Added to a number, leaves its nearest integer in the low bits, and there as a float64's exponent.
  const Wide shifter = Constant(0x1.8p52 + 1023);
  const Wide shifted = hn::Add(x, shifter);
  const Wide f = hn::Sub(x, hn::Sub(shifted, shifter));
  const Wide f2 = hn::Mul(f, f);
  // The series' terms `even` and `even` + 1.
  const auto pair = [&](int even) {
    double term = 1;
    for (int k = 1; k <= even; ++k) term *= kLn2 / 8 / k;
    return hn::MulAdd(Constant(term * kLn2 / 8 / (even + 1)), f, Constant(term));
  };
  const Wide low = hn::MulAdd(f2, pair(2), pair(0));
  const Wide high = hn::MulAdd(f2, pair(6), pair(4));
  Wide power = hn::MulAdd(hn::Mul(f2, f2), high, low);
  for (int i = 0; i < 3; ++i) power = hn::Mul(power, power);
  const hn::RebindToUnsigned<Doubles> bits;
  const auto exponent = hn::ShiftLeft<52>(hn::BitCast(bits, shifted));
  return hn::IfThenElseZero(hn::Ge(x, Constant(-1021)),
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

// Calls keep(place, weights) for each vector of weights.
template <typename Function>
HWY_INLINE void WeighEach(const float* logits, int64_t count, double largest, double temperature,
                          double* sums, Function keep) {
  // Dividing takes longer than all else. Never infinite, as the largest logit gives 0 times this.
  const Wide scale = Constant(std::min(1 / kLn2 / temperature, std::numeric_limits<double>::max()));
  const Wide top = Constant(largest);
  const auto largest_float = hn::Set(kFloats, std::numeric_limits<float>::max());
  EachBlock(logits, count, [&](int64_t b, const float* block) {
    PartialSums partial;
    for (int64_t i = 0; i < kVocabularyBlock; i += kSumLanes) {
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = i + v * kWidth;
        const auto logit = hn::LoadU(kFloats, block + at);
        const auto usable = hn::IfThenElse(hn::Gt(logit, largest_float), largest_float, logit);
        const Wide x = hn::Mul(hn::Sub(hn::PromoteTo(kDoubles, usable), top), scale);
        const Wide weight = Exp2OfNegative(x);
        keep(b * kVocabularyBlock + at, weight);
        partial.vectors[v] = hn::Add(partial.vectors[v], weight);
      }
    }
    sums[b] = partial.Total();
  });
}

void SoftmaxWeightsImpl(const float* logits, int64_t count, double largest, double temperature,
                        double* weights, double* sums) {
  WeighEach(logits, count, largest, temperature, sums,
            [&](int64_t place, Wide weight) { hn::StoreU(weight, kDoubles, weights + place); });
}

void SoftmaxBlockSumsImpl(const float* logits, int64_t count, double largest, double temperature,
                          double* sums) {
  WeighEach(logits, count, largest, temperature, sums, [](int64_t, Wide) {});
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
HWY_EXPORT(SoftmaxBlockSumsImpl);
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

void SoftmaxBlockSums(const float* logits, int64_t count, double largest, double temperature,
                      double* sums) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBlockSumsImpl)(logits, count, largest, temperature, sums);
}

double BlockSum(const double* weights) {
  return HWY_DYNAMIC_DISPATCH(MassFromImpl)(0, weights, 1).sum;
}

Mass MassFrom(double least, const double* weights, int64_t blocks) {
  return HWY_DYNAMIC_DISPATCH(MassFromImpl)(least, weights, blocks);
}

}  // namespace fermata
#endif  // HWY_ONCE
