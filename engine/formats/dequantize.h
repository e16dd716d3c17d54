#ifndef FERMATA_ENGINE_FORMATS_DEQUANTIZE_H_
#define FERMATA_ENGINE_FORMATS_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace fermata {

// Numbers from ggml's quantised blocks (ggml-common.h; dequantize_row_* in ggml-quants.c), each with
// the operations of that code: a float32 scale times a small integer, less a float32 minimum. The
// products are exact (a binary16 has 11 bits, scales and quants few more), so at most the
// subtraction rounds, and fusing it with a product would give the same bits.
//
// `data` is `blocks` blocks at any alignment; `out` has 32 numbers for each, or 256 of the K types.
// False when a block's scale or minimum is not finite: then no number of that block is.
bool DequantizeQ8_0(const std::byte* data, int64_t blocks, float* out);
bool DequantizeQ4_0(const std::byte* data, int64_t blocks, float* out);
bool DequantizeQ4_K(const std::byte* data, int64_t blocks, float* out);
bool DequantizeQ5_K(const std::byte* data, int64_t blocks, float* out);
bool DequantizeQ6_K(const std::byte* data, int64_t blocks, float* out);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_DEQUANTIZE_H_
