#include "engine/kernels/matmul_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>

#include "engine/base/aligned_buffer.h"
#include "engine/kernels/matmul_lines.h"

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

namespace {

int64_t StrideOf(RowFormat format, int64_t features) {
  switch (format) {
    case RowFormat::kFloat:
      return 0;
    case RowFormat::kBf16:
      return RoundUp(features * static_cast<int64_t>(sizeof(uint16_t)), kRowMultiple);
    case RowFormat::kInt8:
      return RoundUp(features, kRowMultiple);
    case RowFormat::kGroups:
      return RoundUp(features, kGroup);
  }
  std::abort();
}

int64_t ScalesOf(RowFormat format, int64_t features) {
  if (format == RowFormat::kInt8) return 1;
  return format == RowFormat::kGroups ? RoundUp(features, kGroup) / kGroup : 0;
}

}  // namespace

NarrowRows::NarrowRows(RowFormat format, const float* x, int64_t rows, int64_t features)
    : format_(format),
      x_(x),
      rows_(rows),
      features_(features),
      stride_(StrideOf(format, features)),
      row_scales_(ScalesOf(format, features)) {}

bool NarrowRows::operator==(const NarrowRows& other) const {
  return std::tie(format_, x_, rows_, features_) ==
         std::tie(other.format_, other.x_, other.rows_, other.features_);
}

int64_t NarrowRows::bytes() const {
  const int64_t scales = RoundUp(rows_ * row_scales_ * sizeof(float), kBufferAlignment);
  return RoundUp(rows_ * stride_, kBufferAlignment) +
         (format_ == RowFormat::kGroups ? 2 * scales : scales);
}

void NarrowRows::Place(std::byte* memory) {
  numbers_ = reinterpret_cast<uint8_t*>(memory);
  scales_ = reinterpret_cast<float*>(numbers_ + RoundUp(rows_ * stride_, kBufferAlignment));
  sums_ = reinterpret_cast<int32_t*>(
      scales_ + RoundUp(rows_ * row_scales_ * sizeof(float), kBufferAlignment) / sizeof(float));
}

void NarrowRows::Fill(int64_t row) const {
  uint8_t* numbers = numbers_ + row * stride_;
  switch (format_) {
    case RowFormat::kFloat:
      return;
    case RowFormat::kBf16:
      RoundToBf16(floats(row), features_, reinterpret_cast<uint16_t*>(numbers));
      std::fill(numbers + features_ * sizeof(uint16_t), numbers + stride_, 0);
      return;
    case RowFormat::kInt8:
      scales_[row] = QuantizeRow(floats(row), features_, stride_, numbers);
      return;
    case RowFormat::kGroups:
      QuantizeGroups(floats(row), features_, reinterpret_cast<int8_t*>(numbers),
                     scales_ + row * row_scales_, sums_ + row * row_scales_);
      return;
  }
}

int64_t NarrowRows::fill_work() const {
  // Of a number, measured.
  switch (format_) {
    case RowFormat::kFloat:
      return 0;
    case RowFormat::kBf16:
      return 6 * features_;
    case RowFormat::kInt8:
      return 8 * features_;
    case RowFormat::kGroups:
      return 20 * features_;
  }
  std::abort();
}

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
