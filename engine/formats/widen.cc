#include "engine/formats/widen.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <iterator>

#include "engine/base/parallel.h"
#include "engine/formats/dequantize.h"
#include "engine/formats/element_type.h"
#include "engine/formats/half.h"

namespace fermata {
namespace {

constexpr int64_t kChunk = 1024;  // Numbers; a whole number of blocks of each type.

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
  static constexpr Bits kExponent = kHalfExponent;
  static float ToFloat(Bits bits) { return HalfToFloat(bits); }
};

// Up to a chunk, without a branch, so that the compiler can use vectors.
template <typename Type>
bool Convert(const std::byte* data, int64_t count, float* out) {
  typename Type::Bits chunk[kChunk];
  std::memcpy(chunk, data, count * sizeof(chunk[0]));
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    finite &= (chunk[i] & Type::kExponent) != Type::kExponent;
    out[i] = Type::ToFloat(chunk[i]);
  }
  return finite;
}

struct Codec {
  std::string_view name;
  // Reads so many blocks, at most a chunk of numbers; false when one is not finite.
  bool (*decode)(const std::byte* data, int64_t blocks, float* out);
};
constexpr Codec kCodecs[] = {
    {"F32", Convert<F32>},    {"F16", Convert<F16>},    {"BF16", Convert<BF16>},
    {"Q8_0", DequantizeQ8_0}, {"Q4_0", DequantizeQ4_0}, {"Q4_K", DequantizeQ4_K},
    {"Q5_K", DequantizeQ5_K}, {"Q6_K", DequantizeQ6_K},
};

const Codec* FindCodec(std::string_view dtype) {
  const Codec* codec = std::ranges::find(kCodecs, dtype, &Codec::name);
  return codec == std::end(kCodecs) ? nullptr : codec;
}

}  // namespace

bool CanWiden(std::string_view dtype) { return FindCodec(dtype) != nullptr; }

int64_t Widen(std::string_view dtype, std::span<const std::byte> data, std::span<float> out) {
  const Codec* codec = FindCodec(dtype);
  const ElementType* type = FindElementType(dtype);
  assert(codec != nullptr && type != nullptr);
  const auto size = static_cast<int64_t>(out.size());
  assert(type->BytesFor(size) == static_cast<int64_t>(data.size()));
  const int64_t blocks = size / type->block;
  const int64_t chunk_blocks = kChunk / type->block;
  std::atomic<int64_t> first_bad = blocks;
  ParallelFor((blocks + chunk_blocks - 1) / chunk_blocks, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      int64_t block = chunk * chunk_blocks;
      const int64_t count = std::min(chunk_blocks, blocks - block);
      if (codec->decode(&data[block * type->bytes], count, &out[block * type->block])) continue;
      while (codec->decode(&data[block * type->bytes], 1, &out[block * type->block])) ++block;
      int64_t seen = first_bad;
      while (block < seen && !first_bad.compare_exchange_weak(seen, block)) {
      }
      return;
    }
  });
  return first_bad == blocks ? -1 : first_bad * type->block;
}

}  // namespace fermata
