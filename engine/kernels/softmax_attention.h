#ifndef FERMATA_ENGINE_KERNELS_SOFTMAX_ATTENTION_H_
#define FERMATA_ENGINE_KERNELS_SOFTMAX_ATTENTION_H_

#include <cstdint>

namespace fermata {

// Softmax attention of one query over keys and values that come block by block, with a running
// maximum m and sum (Milakov and Gimelshein, "Online normalizer calculation for softmax"):
//   o = Σ_s exp(q·k_s - m) v_s / Σ_s exp(q·k_s - m)
struct OnlineSoftmax {
  const float* q = nullptr;  // [dim], scaled.
  float* o = nullptr;        // [dim]; the numerator until FinishAttention.
  int64_t dim = 0;
  float maximum = 0;
  float sum = 0;  // 0 until the first block.
};

// Rows of the cache that lie one after another, `stride` floats apart.
struct KeyValueRows {
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t stride = 0;
  int64_t count = 0;  // In [1, kAttentionBlock].
};
inline constexpr int64_t kAttentionBlock = 64;

// Takes in one block. The bits of the result depend on how the keys are cut into blocks.
void AttendBlock(const KeyValueRows& rows, OnlineSoftmax& attention);

// Divides o by the sum. At least one block must have been taken in.
void FinishAttention(OnlineSoftmax& attention);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_SOFTMAX_ATTENTION_H_
