#ifndef FERMATA_ENGINE_FORMATS_SAFETENSORS_H_
#define FERMATA_ENGINE_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

// A tensor in a .safetensors file.
struct StoredTensor {
  std::string dtype;                // As the file spells it: "F32", "BF16", "I64", …
  std::vector<int64_t> shape;       // No negative extents, and a product that fits in int64_t.
  std::span<const std::byte> data;  // Row-major, little-endian, with no alignment promised.

  int64_t size() const;           // Number of elements.
  std::string ShapeText() const;  // "[96, 32]".
};

// By name, in the order of the names' bytes.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The largest header that is read; the format's own implementation draws the same line.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// Reads the directory of tensors of a whole .safetensors file; the spans point into `file`. The
// format: 8 bytes header length (little-endian), that many bytes of JSON
// {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {string: string}}, then
// the data, which the offsets count from.
//
// Strict, as the format demands: the tensors fill the data without overlap, hole or rest, sizes
// match shape times dtype, equal keys and unknown fields are errors. Element types beyond this
// reader's table are listed with their range alone checked. INVALID_ARGUMENT that begins with
// `source` and names the tensor; any bytes at all are safe.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file,
                                               std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_SAFETENSORS_H_
