#ifndef FERMATA_TESTS_TORCH_FILE_H_
#define FERMATA_TESTS_TORCH_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

// Entries of a zip archive, in order.
using ZipSpec = std::vector<std::pair<std::string, std::string>>;

// A zip archive with its entries stored as they are, each at a multiple of 64 bytes as PyTorch pads
// them. Its check sums are not filled in. As zip64, all sizes and offsets stand in their wide fields,
// as those past 4 GiB must.
std::string ZipBytes(const ZipSpec& entries, bool zip64 = false);

// A tensor as torch.save describes it: a view of the storage `key`.
struct TorchTensor {
  std::string name;
  std::string storage = "FloatStorage";
  std::string key;
  int64_t storage_size = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  bool parameter = false;
};

// Pieces of a pickle of protocol 2.
std::string PickleInt(int64_t value);
std::string PickleText(std::string_view text);
std::string PickleGlobal(std::string_view module, std::string_view name);
std::string PickleTensor(const TorchTensor& tensor);

// A dict of tensors: an OrderedDict with `_metadata` as a module's state_dict() is, or a plain one.
std::string PickleBytes(const std::vector<TorchTensor>& tensors, bool ordered = false);

// The archive "archive" of a pickle and storages by key.
std::string TorchBytes(std::string_view pickle, const ZipSpec& storages, bool zip64 = false);

}  // namespace fermata

#endif  // FERMATA_TESTS_TORCH_FILE_H_
