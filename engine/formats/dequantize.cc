#include "engine/formats/dequantize.h"

#include <cstring>

#include "engine/formats/half.h"

namespace fermata {
namespace {

constexpr int kBlock = 32;
constexpr int kSuperBlock = 256;

// The blocks as they lie in files. All but the halves are bytes, so there is no padding.
struct BlockQ8_0 {
  static constexpr int kValues = kBlock;
  uint16_t scale;
  int8_t quants[kBlock];
};
struct BlockQ4_0 {
  static constexpr int kValues = kBlock;
  uint16_t scale;
  uint8_t quants[kBlock / 2];  // Low nibbles: the first half of the block. High: the second.
};
struct BlockQ4_K {
  static constexpr int kValues = kSuperBlock;
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];               // Eight pairs of 6 bits; see ScaleAndMin.
  uint8_t quants[kSuperBlock / 2];  // Of each 64 values 32 bytes: low nibbles, then high.
};
struct BlockQ5_K {
  static constexpr int kValues = kSuperBlock;
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];
  uint8_t high[kSuperBlock / 8];  // Bit s of byte i is the fifth bit of value i of sub-block s.
  uint8_t quants[kSuperBlock / 2];
};
struct BlockQ6_K {
  static constexpr int kValues = kSuperBlock;
  uint8_t low[kSuperBlock / 2];   // Of each 128 values 64 bytes: low nibbles, then high.
  uint8_t high[kSuperBlock / 4];  // Of each 128 values 32 bytes: bits 2s, 2s+1 for quarter s.
  int8_t scales[kSuperBlock / 16];
  uint16_t scale;
};
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

struct SubBlock {
  float scale;
  float min;
};

// Scale and minimum of sub-block `i` of eight: the first four lie in the low 6 bits of bytes i and
// i + 4; the others in the nibbles of byte i + 4 below the top 2 bits of bytes i - 4 and i.
SubBlock ScaleAndMin(const uint8_t* packed, int i, float scale, float min) {
  const int scale_bits =
      i < 4 ? packed[i] & 63 : (packed[i + 4] & 15) | ((packed[i - 4] >> 6) << 4);
  const int min_bits = i < 4 ? packed[i + 4] & 63 : (packed[i + 4] >> 4) | ((packed[i] >> 6) << 4);
  return {scale * static_cast<float>(scale_bits), min * static_cast<float>(min_bits)};
}

bool Decode(const BlockQ8_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(block.quants[i]) * scale;
  return IsFiniteHalf(block.scale);
}

bool Decode(const BlockQ4_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = static_cast<float>((block.quants[i] & 15) - 8) * scale;
    out[i + kBlock / 2] = static_cast<float>((block.quants[i] >> 4) - 8) * scale;
  }
  return IsFiniteHalf(block.scale);
}

bool Decode(const BlockQ4_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  const uint8_t* quants = block.quants;
  for (int s = 0; s < 8; s += 2, quants += 32, out += 64) {
    const SubBlock low = ScaleAndMin(block.scales, s, scale, min);
    const SubBlock high = ScaleAndMin(block.scales, s + 1, scale, min);
    for (int i = 0; i < 32; ++i) {
      out[i] = low.scale * static_cast<float>(quants[i] & 15) - low.min;
      out[i + 32] = high.scale * static_cast<float>(quants[i] >> 4) - high.min;
    }
  }
  return IsFiniteHalf(block.scale) && IsFiniteHalf(block.min);
}

bool Decode(const BlockQ5_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  const uint8_t* quants = block.quants;
  for (int s = 0; s < 8; s += 2, quants += 32, out += 64) {
    const SubBlock low = ScaleAndMin(block.scales, s, scale, min);
    const SubBlock high = ScaleAndMin(block.scales, s + 1, scale, min);
    for (int i = 0; i < 32; ++i) {
      const int fifth = block.high[i] >> s;
      const int first = (quants[i] & 15) | ((fifth & 1) << 4);
      const int second = (quants[i] >> 4) | ((fifth & 2) << 3);
      out[i] = low.scale * static_cast<float>(first) - low.min;
      out[i + 32] = high.scale * static_cast<float>(second) - high.min;
    }
  }
  return IsFiniteHalf(block.scale) && IsFiniteHalf(block.min);
}

bool Decode(const BlockQ6_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter, out += 32) {
      const uint8_t* low = block.low + half * 64 + quarter % 2 * 32;
      const uint8_t* high = block.high + half * 32;
      const int8_t* scales = block.scales + half * 8 + quarter * 2;
      for (int i = 0; i < 32; ++i) {
        const int nibble = quarter < 2 ? low[i] & 15 : low[i] >> 4;
        const int quant = (nibble | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        const int sub_scale = scales[i / 16];
        out[i] = scale * static_cast<float>(sub_scale) * static_cast<float>(quant);
      }
    }
  }
  return IsFiniteHalf(block.scale);
}

template <typename Block>
bool DecodeAll(const std::byte* data, int64_t blocks, float* out) {
  bool finite = true;
  for (int64_t i = 0; i < blocks; ++i) {
    Block block;
    std::memcpy(&block, data + i * sizeof(Block), sizeof(Block));
    finite &= Decode(block, out + i * Block::kValues);
  }
  return finite;
}

}  // namespace

bool DequantizeQ8_0(const std::byte* data, int64_t blocks, float* out) {
  return DecodeAll<BlockQ8_0>(data, blocks, out);
}
bool DequantizeQ4_0(const std::byte* data, int64_t blocks, float* out) {
  return DecodeAll<BlockQ4_0>(data, blocks, out);
}
bool DequantizeQ4_K(const std::byte* data, int64_t blocks, float* out) {
  return DecodeAll<BlockQ4_K>(data, blocks, out);
}
bool DequantizeQ5_K(const std::byte* data, int64_t blocks, float* out) {
  return DecodeAll<BlockQ5_K>(data, blocks, out);
}
bool DequantizeQ6_K(const std::byte* data, int64_t blocks, float* out) {
  return DecodeAll<BlockQ6_K>(data, blocks, out);
}

}  // namespace fermata
