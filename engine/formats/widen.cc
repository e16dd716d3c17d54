#include "engine/formats/widen.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace fermata {
namespace {

struct F32 {
  using Bits = uint32_t;
  static constexpr Bits kExponent = 0x7f800000;
  static float ToFloat(Bits bits) { return std::bit_cast<float>(bits); }
};

struct BF16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7f80;
  static float ToFloat(Bits bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct F16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7c00;
  static float ToFloat(Bits bits) {
    constexpr uint32_t kRebias = 127 - 15;
    const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13;
    const float normal = std::bit_cast<float>(magnitude + (kRebias << 23));
    // A denormal m · 2^-24 is (1 + m / 1024) · 2^-14 less 2^-14; no float32 denormal takes part.
    const float denormal = std::bit_cast<float>(magnitude + ((kRebias + 1) << 23)) - 0x1p-14f;
    const uint32_t value = std::bit_cast<uint32_t>((bits & kExponent) == 0 ? denormal : normal);
    return std::bit_cast<float>(value | uint32_t{bits & 0x8000u} << 16);
  }
};

// In blocks, each without a branch, so that the compiler can use vectors.
template <typename Type>
int64_t WidenAs(std::span<const std::byte> data, std::span<float> out) {
  using Bits = typename Type::Bits;
  constexpr size_t kBlock = 1024;
  Bits block[kBlock];
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, out.size() - begin);
    std::memcpy(block, data.data() + begin * sizeof(Bits), count * sizeof(Bits));
    bool finite = true;
    for (size_t i = 0; i < count; ++i) {
      finite &= (block[i] & Type::kExponent) != Type::kExponent;
      out[begin + i] = Type::ToFloat(block[i]);
    }
    if (finite) continue;
    const auto* bad = std::find_if(block, block + count, [](Bits bits) {
      return (bits & Type::kExponent) == Type::kExponent;
    });
    return static_cast<int64_t>(begin) + (bad - block);
  }
  return -1;
}

}  // namespace

bool CanWiden(std::string_view dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

int64_t Widen(std::string_view dtype, std::span<const std::byte> data, std::span<float> out) {
  assert(CanWiden(dtype));
  if (dtype == "F32") return WidenAs<F32>(data, out);
  return dtype == "F16" ? WidenAs<F16>(data, out) : WidenAs<BF16>(data, out);
}

}  // namespace fermata
