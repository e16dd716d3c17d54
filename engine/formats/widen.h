#ifndef FERMATA_ENGINE_FORMATS_WIDEN_H_
#define FERMATA_ENGINE_FORMATS_WIDEN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fermata {

// Whether Widen reads values of this type: "F32", "F16" and "BF16", as .safetensors spells them.
bool CanWiden(std::string_view dtype);

// out = `data`, stored as `dtype` at any alignment, as float32. Exact: both 16-bit types are
// subsets of float32. `data` holds out.size() values of a type that CanWiden. Returns the index of
// the first value that is not finite, or -1; what lies from there on in `out` is unspecified.
int64_t Widen(std::string_view dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_WIDEN_H_
