#ifndef FERMATA_ENGINE_FORMATS_HALF_H_
#define FERMATA_ENGINE_FORMATS_HALF_H_

#include <bit>
#include <cstdint>

namespace fermata {

inline constexpr uint16_t kHalfExponent = 0x7c00;

// Whether the bits of an IEEE 754 binary16 are a number.
inline bool IsFiniteHalf(uint16_t bits) { return (bits & kHalfExponent) != kHalfExponent; }

// A finite binary16 as float32, which is exact. Without a branch, so that loops of it can use
// vectors.
inline float HalfToFloat(uint16_t bits) {
  constexpr uint32_t kRebias = 127 - 15;
  const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13;
  const float normal = std::bit_cast<float>(magnitude + (kRebias << 23));
  // A denormal m · 2^-24 is (1 + m / 1024) · 2^-14 less 2^-14; no float32 denormal takes part.
  const float denormal = std::bit_cast<float>(magnitude + ((kRebias + 1) << 23)) - 0x1p-14f;
  const uint32_t value = std::bit_cast<uint32_t>((bits & kHalfExponent) == 0 ? denormal : normal);
  return std::bit_cast<float>(value | uint32_t{bits & 0x8000u} << 16);
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_HALF_H_
