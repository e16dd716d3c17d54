#ifndef FERMATA_ENGINE_KERNELS_BLOCK_PRODUCT_H_
#define FERMATA_ENGINE_KERNELS_BLOCK_PRODUCT_H_

#include <cstdint>

namespace fermata {

// Row-major blocks that live in the cache, rows `*_stride` floats apart.
struct BlockProduct {
  const float* a = nullptr;  // [rows, inner]
  int64_t a_stride = 0;
  const float* b = nullptr;  // [inner, columns]
  int64_t b_stride = 0;
  float* c = nullptr;  // [rows, columns]
  int64_t c_stride = 0;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
};

// c += a · b. Each element is summed in the order of `inner`, starting from what c holds, so its
// bits depend on its row of a and its column of b alone. c must not overlap a or b.
void MultiplyAccumulate(const BlockProduct& product);

// out [columns, rows] = aᵀ, for a [rows, columns]; the strides are of the rows of a and of out.
void Transpose(const float* a, int64_t a_stride, int64_t rows, int64_t columns, float* out,
               int64_t out_stride);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_BLOCK_PRODUCT_H_
