#include "engine/formats/dequantize.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/formats/widen.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

// The layouts as ggml-common.h describes them, each value by itself and in float64, where all of it
// is exact: a half has 11 bits, a sub-block's scale 6 or 8, a quant at most 8.

using Block = std::vector<uint8_t>;

double HalfAt(const Block& block, size_t at) {
  const int bits = block[at] | block[at + 1] << 8;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// d · q: signed bytes behind d.
double Q8_0(const Block& block, int i) {
  return HalfAt(block, 0) * static_cast<int8_t>(block[2 + i]);
}

// d · (q - 8): byte i has value i in its lower and value i + 16 in its upper half.
double Q4_0(const Block& block, int i) {
  const int byte = block[2 + i % 16];
  return HalfAt(block, 0) * ((i < 16 ? byte % 16 : byte / 16) - 8);
}

// The 6-bit scale and minimum of a sub-block of 32, of the twelve bytes from `at` on. Written as
// get_scale_min_k4's picture has it: bytes 0-3 are scales 0-3 with the high bits of scales 4-7 on
// top, bytes 4-7 the same of minima, bytes 8-11 the low bits of scales 4-7 and above them of minima.
int ScaleOf(const Block& block, size_t at, int sub) {
  if (sub < 4) return block[at + sub] % 64;
  return block[at + 8 + sub - 4] % 16 + 16 * (block[at + sub - 4] / 64);
}
int MinOf(const Block& block, size_t at, int sub) {
  if (sub < 4) return block[at + 4 + sub] % 64;
  return block[at + 8 + sub - 4] / 16 + 16 * (block[at + 4 + sub - 4] / 64);
}

// Two sub-blocks share 32 bytes, one in the lower and one in the upper halves.
int NibbleOf(const Block& block, size_t at, int i) {
  const int byte = block[at + i / 64 * 32 + i % 32];
  return i / 32 % 2 == 0 ? byte % 16 : byte / 16;
}

double KQuant(const Block& block, int i, int quant) {
  const int sub = i / 32;
  return HalfAt(block, 0) * ScaleOf(block, 4, sub) * quant -
         HalfAt(block, 2) * MinOf(block, 4, sub);
}

double Q4_K(const Block& block, int i) { return KQuant(block, i, NibbleOf(block, 16, i)); }

// The fifth bits: bit s of byte i % 32 for sub-block s.
double Q5_K(const Block& block, int i) {
  const int fifth = block[16 + i % 32] >> (i / 32) & 1;
  return KQuant(block, i, NibbleOf(block, 48, i) + 16 * fifth);
}

// In halves of 128: quarters 0 and 1 in the lower halves of 64 bytes, 2 and 3 in the upper; two
// more bits of each in 32 bytes; a signed scale for each 16.
double Q6_K(const Block& block, int i) {
  const int half = i / 128;
  const int quarter = i / 32 % 4;
  const int low_byte = block[half * 64 + quarter % 2 * 32 + i % 32];
  const int low = quarter < 2 ? low_byte % 16 : low_byte / 16;
  const int high = block[128 + half * 32 + i % 32] >> (2 * quarter) & 3;
  return HalfAt(block, 208) * static_cast<int8_t>(block[192 + i / 16]) * (low + 16 * high - 32);
}

struct Case {
  std::string dtype;
  int values;
  size_t bytes;
  std::vector<size_t> halves;  // Where scales and minima lie.
  double (*decode)(const Block&, int);
};
const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {"Q8_0", 32, 34, {0}, Q8_0},      {"Q4_0", 32, 18, {0}, Q4_0},
      {"Q4_K", 256, 144, {0, 2}, Q4_K}, {"Q5_K", 256, 176, {0, 2}, Q5_K},
      {"Q6_K", 256, 210, {208}, Q6_K},
  };
  return cases;
}

// Blocks of random bytes, whose halves are finite and near enough to one another that the
// differences of their multiples are exact in float64.
std::vector<Block> RandomBlocks(const Case& type, int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Block> blocks(count, Block(type.bytes));
  for (Block& block : blocks) {
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    const uint32_t exponent = random() % 21;
    for (const size_t at : type.halves) {
      block[at + 1] = static_cast<uint8_t>((random() & 0x83) | (exponent + random() % 10) << 2);
    }
  }
  return blocks;
}

std::vector<std::byte> Joined(const std::vector<Block>& blocks) {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks) {
    const auto as_bytes = std::as_bytes(std::span(block));
    bytes.insert(bytes.end(), as_bytes.begin(), as_bytes.end());
  }
  return bytes;
}

TEST(DequantizeTest, EveryValueIsWhatTheLayoutSays) {
  for (const Case& type : Cases()) {
    const std::vector<Block> blocks = RandomBlocks(type, 400, 7);
    std::vector<float> out(blocks.size() * type.values);
    ASSERT_EQ(Widen(type.dtype, Joined(blocks), out), -1) << type.dtype;
    for (size_t i = 0; i < out.size(); ++i) {
      const double exact = type.decode(blocks[i / type.values], static_cast<int>(i % type.values));
      ASSERT_EQ(out[i], static_cast<float>(exact)) << type.dtype << " " << i;
    }
  }
}

TEST(DequantizeTest, ReadsAtAnyAlignment) {
  for (const Case& type : Cases()) {
    const std::vector<std::byte> bytes = Joined(RandomBlocks(type, 3, 8));
    std::vector<float> expected(3 * type.values);
    Widen(type.dtype, bytes, expected);
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
    std::vector<float> out(expected.size());
    EXPECT_EQ(Widen(type.dtype, std::span(shifted).subspan(1), out), -1);
    EXPECT_EQ(out, expected) << type.dtype;
  }
}

TEST(DequantizeTest, NamesTheFirstBlockThatIsNotFinite) {
  for (const Case& type : Cases()) {
    for (const size_t half : type.halves) {
      for (const int bad : {0, 1, 4, 31, 32, 33, 99}) {
        std::vector<Block> blocks = RandomBlocks(type, 100, 9);
        for (const int at : {bad, 99}) blocks[at][half + 1] = at % 2 == 0 ? 0x7c : 0xff;
        std::vector<float> out(blocks.size() * type.values);
        EXPECT_EQ(Widen(type.dtype, Joined(blocks), out), bad * type.values) << type.dtype;
      }
    }
  }
}

}  // namespace
}  // namespace fermata
