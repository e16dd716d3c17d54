#ifndef FERMATA_ENGINE_FORMATS_TORCH_FILE_H_
#define FERMATA_ENGINE_FORMATS_TORCH_FILE_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/formats/stored_tensor.h"

namespace fermata {

// Reads the tensors of a whole file that PyTorch 1.6 or later has saved (.pth, .pt, .bin); the spans
// point into `file`. Such a file is a zip archive with nothing compressed: <name>/data.pkl describes
// a dict of tensors (see torch_pickle.h: nothing in it is run), <name>/data/<key> are their storages.
//
// Tensors may share a storage, as tied weights do; each must be row-major in it without gaps.
// Big-endian files and the format from before 1.6 are refused by name.
// INVALID_ARGUMENT that begins with `source` and names the tensor, the entry or the byte; any bytes
// at all are safe.
absl::StatusOr<StoredTensors> ParseTorchFile(std::span<const std::byte> file,
                                             std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_TORCH_FILE_H_
