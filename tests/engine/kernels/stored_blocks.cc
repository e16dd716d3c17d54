#include "tests/engine/kernels/stored_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

namespace fermata {
namespace {

constexpr int64_t kBlock = 32;

}  // namespace

StoredBlocks::StoredBlocks(BlockType block_type, int64_t out_features, int64_t in_features)
    : type(block_type),
      bytes(out_features * in_features / kBlock * block_bytes()),
      scales(out_features * in_features / kBlock),
      quants(out_features * in_features) {}

void StoredBlocks::SetScale(int64_t block, int mantissa, int exponent) {
  const int bits =
      std::abs(mantissa) - 1024 + ((exponent + 15) << 10) + (mantissa < 0 ? 0x8000 : 0);
  bytes[block * block_bytes()] = static_cast<std::byte>(bits & 255);
  bytes[block * block_bytes() + 1] = static_cast<std::byte>(bits >> 8);
  scales[block] = std::ldexp(mantissa, exponent - 10);
}

void StoredBlocks::SetQuant(int64_t i, int quant) {
  quants[i] = quant;
  std::byte* block = &bytes[i / kBlock * block_bytes() + 2];
  const int64_t place = i % kBlock;
  if (type == BlockType::kQ8_0) {
    block[place] = static_cast<std::byte>(quant);
    return;
  }
  const auto nibble = static_cast<std::byte>(quant + 8);
  std::byte& byte = block[place % 16];
  byte = place < 16 ? (byte & std::byte{0xf0}) | nibble : (byte & std::byte{0x0f}) | nibble << 4;
}

double StoredBlocks::value(int64_t i) const { return quants[i] * scales[i / kBlock]; }

StoredBlocks RandomBlocks(BlockType type, int64_t out_features, int64_t in_features, int seed) {
  StoredBlocks stored(type, out_features, in_features);
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> mantissa(1024, 2047);
  std::uniform_int_distribution<int> exponent(-14, -3);
  const int most = type == BlockType::kQ8_0 ? 128 : 8;
  std::uniform_int_distribution<int> quant(-most, most - 1);
  for (size_t block = 0; block < stored.scales.size(); ++block) {
    const int sign = generator() % 2 == 0 ? 1 : -1;
    stored.SetScale(static_cast<int64_t>(block), sign * mantissa(generator), exponent(generator));
  }
  for (size_t i = 0; i < stored.quants.size(); ++i) {
    stored.SetQuant(static_cast<int64_t>(i), quant(generator));
  }
  return stored;
}

std::unique_ptr<MatmulBackend> PackAsQ8_0(const float* weights, int64_t out_features,
                                          int64_t in_features) {
  if (in_features % kBlock != 0) return nullptr;
  StoredBlocks stored(BlockType::kQ8_0, out_features, in_features);
  for (int64_t begin = 0; begin < out_features * in_features; begin += kBlock) {
    float greatest = 0x1p-6f;
    for (int64_t i = 0; i < kBlock; ++i)
      greatest = std::max(greatest, std::abs(weights[begin + i]));
    const int exponent = std::ilogb(greatest) + 1 - 7;
    stored.SetScale(begin / kBlock, 1024, exponent);
    for (int64_t i = begin; i < begin + kBlock; ++i) {
      stored.SetQuant(i,
                      std::clamp(static_cast<int>(std::ldexp(weights[i], -exponent)), -128, 127));
    }
  }
  return PackBlocks(stored.blocks(), out_features, in_features);
}

}  // namespace fermata
