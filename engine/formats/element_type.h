#ifndef FERMATA_ENGINE_FORMATS_ELEMENT_TYPE_H_
#define FERMATA_ENGINE_FORMATS_ELEMENT_TYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace fermata {

// How numbers of one type lie in files: `block` of them in `bytes` bytes.
struct ElementType {
  std::string_view name;  // "F32", "Q4_K": as .safetensors and ggml spell it.
  int64_t block;
  int64_t bytes;

  // The bytes that so many numbers take; nullopt where they are no whole number of blocks, and
  // where the bytes do not fit in int64_t.
  std::optional<int64_t> BytesFor(int64_t count) const;
};

// Null for a name that is not in the table.
const ElementType* FindElementType(std::string_view name);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_ELEMENT_TYPE_H_
