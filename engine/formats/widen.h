#ifndef FERMATA_ENGINE_FORMATS_WIDEN_H_
#define FERMATA_ENGINE_FORMATS_WIDEN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fermata {

// The types whose numbers can be read, for errors.
inline constexpr std::string_view kReadableTypes = "F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K";

// Whether Widen reads numbers of this type: one of kReadableTypes, in just that spelling.
bool CanWiden(std::string_view dtype);

// out = `data`, stored as `dtype` at any alignment, as float32: exact for F32 and the 16-bit types,
// which are subsets of it, and for quantised ones what ggml's reference code gives (dequantize.h).
// `data` holds out.size() numbers, a whole number of blocks, of a type that CanWiden. Returns the
// index of the first number that is not finite, or -1; what lies from there on in `out` is
// unspecified. Works on several threads when there is enough to do.
int64_t Widen(std::string_view dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_WIDEN_H_
