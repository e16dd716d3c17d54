#ifndef FERMATA_ENGINE_FORMATS_SAFETENSORS_H_
#define FERMATA_ENGINE_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/formats/stored_tensor.h"

namespace fermata {

// The largest header that is read; the format's own implementation draws the same line.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// Reads the directory of tensors of a whole .safetensors file; the spans point into `file`. The
// format: 8 bytes header length (little-endian), that many bytes of JSON
// {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {string: string}}, then
// the data, which the offsets count from.
//
// Strict, as the format demands: the tensors fill the data without overlap, hole or rest, sizes
// match shape times dtype, equal keys and unknown fields are errors. Element types that
// FindElementType does not know are listed with their range alone checked. INVALID_ARGUMENT that begins with
// `source` and names the tensor; any bytes at all are safe.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file,
                                               std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_SAFETENSORS_H_
