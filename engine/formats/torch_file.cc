#include "engine/formats/torch_file.h"

#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/element_type.h"
#include "engine/formats/torch_pickle.h"
#include "engine/formats/zip_archive.h"

namespace fermata {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether the numbers follow one another as the shape's indices count up, the last fastest.
bool IsRowMajor(const PickledTensor& tensor, int64_t count) {
  int64_t stride = 1;
  for (size_t i = tensor.shape.size(); count > 0 && i-- > 0;) {
    if (tensor.shape[i] == 1) continue;
    if (tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

class TorchReader {
 public:
  TorchReader(std::span<const std::byte> file, std::string_view source)
      : file_(file), source_(source) {}

  absl::StatusOr<StoredTensors> Read() {
    FERMATA_RETURN_IF_ERROR(CheckKind());
    FERMATA_ASSIGN_OR_RETURN(entries_, ReadZipEntries(file_, source_));
    FERMATA_RETURN_IF_ERROR(FindPrefix());
    const auto pickle = entries_.find(prefix_ + std::string(kPickle));
    FERMATA_ASSIGN_OR_RETURN(const PickledTensors pickled,
                             ReadTorchPickle(pickle->second, source_));
    StoredTensors tensors;
    for (const auto& [name, tensor] : pickled) {
      FERMATA_ASSIGN_OR_RETURN(StoredTensor stored, Locate(name, tensor));
      tensors.emplace(name, std::move(stored));
    }
    return tensors;
  }

 private:
  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", why));
  }

  absl::Status CheckKind() const {
    constexpr std::string_view kZip = "PK";
    constexpr std::string_view kOldPickle = "\x80";
    const std::string_view text = Text(file_);
    if (text.starts_with(kZip)) return absl::OkStatus();
    return text.starts_with(kOldPickle)
               ? Error(
                     "saved by PyTorch before 1.6, whose format is not read: load and save it with "
                     "a later one, or convert it to .safetensors")
               : Error("not a file that PyTorch has saved");
  }

  // The folder that holds everything; its name is any.
  absl::Status FindPrefix() {
    for (const auto& [name, bytes] : entries_) {
      const size_t slash = name.find('/');
      if (slash == std::string::npos || name.substr(slash) != kPickle) continue;
      if (!prefix_.empty()) return Error("two pickles, in " + prefix_ + " and " + name);
      prefix_ = name.substr(0, slash);
    }
    if (prefix_.empty()) return Error("a zip archive with no <name>/data.pkl");
    const auto order = entries_.find(prefix_ + "/byteorder");
    if (order != entries_.end() && Text(order->second) != "little") {
      return Error("its byteorder is not little");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StoredTensor> Locate(const std::string& name, const PickledTensor& tensor) const {
    const auto error = [&](const std::string& why) {
      return Error(absl::StrCat("tensor ", Quoted(name), ": ", why));
    };
    StoredTensor stored{tensor.dtype, tensor.shape, {}};
    const std::optional<int64_t> count = ElementCount(tensor.shape);
    if (!count.has_value()) return error("shape " + stored.ShapeText() + " overflows");
    if (!IsRowMajor(tensor, *count)) {
      return error(absl::StrCat("strides [", absl::StrJoin(tensor.strides, ", "), "] of shape ",
                                stored.ShapeText(),
                                " are not row-major: save a contiguous copy of it"));
    }
    const auto storage = entries_.find(absl::StrCat(prefix_, "/data/", tensor.storage));
    if (storage == entries_.end()) {
      return error("its storage " + Quoted(tensor.storage) + " is missing");
    }
    const ElementType* type = FindElementType(tensor.dtype);
    assert(type != nullptr && type->block == 1);
    if (type->BytesFor(tensor.storage_size) != static_cast<int64_t>(storage->second.size())) {
      return error(absl::StrCat("its storage ", Quoted(tensor.storage), " of ", tensor.storage_size,
                                " ", tensor.dtype, " has ", storage->second.size(), " bytes"));
    }
    if (*count > tensor.storage_size || tensor.offset > tensor.storage_size - *count) {
      return error(absl::StrCat("shape ", stored.ShapeText(), " at ", tensor.offset,
                                " reaches past its storage of ", tensor.storage_size));
    }
    stored.data = storage->second.subspan(tensor.offset * type->bytes, *count * type->bytes);
    return stored;
  }

  std::span<const std::byte> file_;
  std::string source_;
  ZipEntries entries_;
  std::string prefix_;
};

}  // namespace

absl::StatusOr<StoredTensors> ParseTorchFile(std::span<const std::byte> file,
                                             std::string_view source) {
  return TorchReader(file, source).Read();
}

}  // namespace fermata
