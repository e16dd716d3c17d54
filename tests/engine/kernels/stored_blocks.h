#ifndef FERMATA_TESTS_ENGINE_KERNELS_STORED_BLOCKS_H_
#define FERMATA_TESTS_ENGINE_KERNELS_STORED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/weights.h"
#include "engine/kernels/matmul_backend.h"

namespace fermata {

// A matrix as a GGUF file has it in blocks of 32, and the numbers it stands for.
struct StoredBlocks {
  StoredBlocks(BlockType block_type, int64_t out_features, int64_t in_features);

  // Sets a block's scale to mantissa / 1024 · 2^exponent, for mantissa in [1024, 2047] and exponent
  // in [-14, 15]. The mantissa may be negative.
  void SetScale(int64_t block, int mantissa, int exponent);
  // Sets number `i`, counted over the whole matrix, to `quant` times its block's scale.
  void SetQuant(int64_t i, int quant);

  WeightBlocks blocks() const { return {type, bytes}; }
  double value(int64_t i) const;

  BlockType type;
  std::vector<std::byte> bytes;
  std::vector<double> scales;
  std::vector<int> quants;

 private:
  int64_t block_bytes() const { return type == BlockType::kQ8_0 ? 34 : 18; }
};

// Blocks of random scales, of either sign and of several magnitudes, and random quants.
StoredBlocks RandomBlocks(BlockType type, int64_t out_features, int64_t in_features, int seed);

// PackBlocks of the nearest that 8-bit blocks with powers of two as scales come to the weights. Null
// where in_features are no whole number of blocks.
std::unique_ptr<MatmulBackend> PackAsQ8_0(const float* weights, int64_t out_features,
                                          int64_t in_features);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_KERNELS_STORED_BLOCKS_H_
