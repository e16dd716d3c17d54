#ifndef FERMATA_ENGINE_FORMATS_STORED_TENSOR_H_
#define FERMATA_ENGINE_FORMATS_STORED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace fermata {

// A tensor in a file, whatever the format. Where FindElementType knows the type, `data` is as long
// as that says: readers check it.
struct StoredTensor {
  std::string dtype;                // "F32", "BF16", "I64", "Q4_K", …
  std::vector<int64_t> shape;       // No negative extents, and a product that fits in int64_t.
  std::span<const std::byte> data;  // Row-major, little-endian, with no alignment promised.

  int64_t size() const;           // Number of elements.
  std::string ShapeText() const;  // "[96, 32]".
};

// By name, in the order of the names' bytes.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The product of a shape that a file claims; nullopt where it does not fit in int64_t.
std::optional<int64_t> ElementCount(std::span<const int64_t> shape);

// Where a file keeps its tensors.
struct DataSection {
  std::span<const std::byte> bytes;
  int64_t alignment;  // A power of two.
  std::string_view source;
};

// INVALID_ARGUMENT that names the culprit, unless the tensors fill the section: the first begins
// with it, each other one where the one before ends, rounded up to the alignment, and nothing but
// such padding follows the last.
absl::Status CheckTiling(const StoredTensors& tensors, const DataSection& section);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_STORED_TENSOR_H_
