#ifndef FERMATA_ENGINE_FORMATS_TORCH_PICKLE_H_
#define FERMATA_ENGINE_FORMATS_TORCH_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

// A tensor as a pickle describes it: a view of a storage, whose numbers lie elsewhere.
struct PickledTensor {
  std::string dtype;  // "F32", "BF16", …
  std::string storage;
  int64_t storage_size = 0;    // All in numbers, none negative.
  int64_t offset = 0;          // Of the first, in the storage.
  std::vector<int64_t> shape;  // As many as there are strides, at most 16.
  std::vector<int64_t> strides;
};

using PickledTensors = std::map<std::string, PickledTensor, std::less<>>;

// The largest pickle that is read; that of fifty thousand tensors takes half of it.
inline constexpr size_t kMaxPickleBytes = size_t{16} << 20;

// Reads what torch.save writes for a dict (or OrderedDict, as state_dict() gives) from names to
// tensors or parameters, in pickle's protocol 2. A pickle is a program for a small machine that can
// call anything. This machine knows the operations and the names that such a dict takes, and handles
// the names itself: nothing is imported or run. Any other operation or name is INVALID_ARGUMENT that
// begins with `source` and says which and at what byte. Any bytes at all are safe; memory stays
// within a constant times their number.
absl::StatusOr<PickledTensors> ReadTorchPickle(std::span<const std::byte> pickle,
                                               std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_TORCH_PICKLE_H_
