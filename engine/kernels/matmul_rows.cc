#include "engine/kernels/matmul_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/matmul_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "engine/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fermata {
namespace HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<Tag>;
using IntVec = hn::Vec<IntTag>;
inline constexpr IntTag kIntTag{};

// Calls `body(vector, i)` for x[i...], the last vector filled up with zeros.
template <typename Body>
HWY_INLINE void ForEachVector(const float* x, int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) body(hn::LoadU(kTag, x + i), i);
  if (i == count) return;
  HWY_ALIGN float rest[kVectorLanes] = {};
  std::memcpy(rest, x + i, (count - i) * sizeof(float));
  body(hn::Load(kTag, rest), i);
}

// The bits of the greatest |x|; NaN counts as greater than infinity, as its bits are.
HWY_INLINE int32_t GreatestBits(const float* x, int64_t count) {
  IntVec greatest = hn::Zero(kIntTag);
  ForEachVector(x, count, [&](Vec vector, int64_t) {
    greatest = hn::Max(greatest, hn::BitCast(kIntTag, hn::Abs(vector)));
  });
  HWY_ALIGN int32_t lanes[kVectorLanes];
  hn::Store(greatest, kIntTag, lanes);
  return *std::max_element(lanes, lanes + kVectorLanes);
}

struct Scale {
  float scale;
  float inverse;  // 0 where the quants are to be 0.
};

HWY_INLINE Scale ScaleFor(const float* x, int64_t count) {
  const int32_t bits = GreatestBits(x, count);
  float greatest;
  std::memcpy(&greatest, &bits, sizeof(greatest));
  if (!std::isfinite(greatest)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (greatest < kLeastMagnitude) return {0, 0};
  return {greatest / 127, 127 / greatest};
}

HWY_INLINE IntVec Quants(Vec x, float inverse) {
  return hn::NearestInt(hn::Mul(x, hn::Set(kTag, inverse)));
}

using ByteTag = hn::Rebind<int8_t, IntTag>;
using UnsignedByteTag = hn::Rebind<uint8_t, IntTag>;

float QuantizeRow(const float* x, int64_t count, int64_t padded, uint8_t* quants) {
  const Scale scale = ScaleFor(x, count);
  // Whole vectors are written: the room behind the last of them is padding, which is written next.
  if (scale.inverse == 0) {
    std::memset(quants, 128, padded);
    return scale.scale;
  }
  HWY_ALIGN uint8_t last[kVectorLanes];
  ForEachVector(x, count, [&](Vec vector, int64_t i) {
    const IntVec shifted = hn::Add(Quants(vector, scale.inverse), hn::Set(kIntTag, 128));
    const auto bytes = hn::DemoteTo(UnsignedByteTag(), shifted);
    if (i + kVectorLanes <= count) {
      hn::StoreU(bytes, UnsignedByteTag(), quants + i);
    } else {
      hn::Store(bytes, UnsignedByteTag(), last);
      std::memcpy(quants + i, last, count - i);
    }
  });
  std::memset(quants + count, 128, padded - count);
  return scale.scale;
}

void QuantizeGroups(const float* x, int64_t count, int8_t* quants, float* scales, int32_t* sums) {
  for (int64_t begin = 0; begin < count; begin += kGroup, quants += kGroup) {
    const int64_t size = std::min(kGroup, count - begin);
    const Scale scale = ScaleFor(x + begin, size);
    *scales++ = scale.scale;
    std::memset(quants, 0, kGroup);
    IntVec sum = hn::Zero(kIntTag);
    if (scale.inverse != 0) {
      ForEachVector(x + begin, size, [&](Vec vector, int64_t i) {
        const IntVec values = Quants(vector, scale.inverse);
        sum = hn::Add(sum, values);
        hn::StoreU(hn::DemoteTo(ByteTag(), values), ByteTag(), quants + i);
      });
    }
    *sums++ = hn::GetLane(hn::SumOfLanes(kIntTag, sum));
  }
}

// Adding just under half of the last bit kept, or half where that bit is odd, rounds to nearest
// even. A NaN is made quiet instead: the addition could turn it into infinity or zero.
void RoundToBf16(const float* x, int64_t count, uint16_t* out) {
  const hn::RebindToUnsigned<Tag> bits_tag;
  const hn::Rebind<uint16_t, Tag> half_tag;
  HWY_ALIGN uint16_t last[kVectorLanes];
  ForEachVector(x, count, [&](Vec vector, int64_t i) {
    const auto bits = hn::BitCast(bits_tag, vector);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(bits_tag, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(bits_tag, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(bits_tag, 0x400000));
    const auto chosen = hn::IfThenElse(hn::RebindMask(bits_tag, hn::IsNaN(vector)), quiet, rounded);
    const auto halves = hn::DemoteTo(half_tag, hn::BitCast(kIntTag, hn::ShiftRight<16>(chosen)));
    if (i + kVectorLanes <= count) {
      hn::StoreU(halves, half_tag, out + i);
    } else {
      hn::Store(halves, half_tag, last);
      std::memcpy(out + i, last, (count - i) * sizeof(uint16_t));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fermata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fermata {

HWY_EXPORT(QuantizeRow);
HWY_EXPORT(QuantizeGroups);
HWY_EXPORT(RoundToBf16);

float QuantizeRow(const float* x, int64_t count, int64_t padded, uint8_t* quants) {
  return HWY_DYNAMIC_DISPATCH(QuantizeRow)(x, count, padded, quants);
}

void QuantizeGroups(const float* x, int64_t count, int8_t* quants, float* scales, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(QuantizeGroups)(x, count, quants, scales, sums);
}

void RoundToBf16(const float* x, int64_t count, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(RoundToBf16)(x, count, out);
}

}  // namespace fermata
#endif  // HWY_ONCE
