#include "engine/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/element_type.h"

namespace fermata {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are mapped, not converted");

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxRank = 16;
constexpr std::string_view kMetadata = "__metadata__";

// Reads one file's header; holds what every error has to say.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view source)
      : file_(file), source_(source) {}

  absl::StatusOr<StoredTensors> Read() {
    FERMATA_ASSIGN_OR_RETURN(const json header, ReadHeader());
    StoredTensors tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        FERMATA_RETURN_IF_ERROR(CheckMetadata(entry));
        continue;
      }
      FERMATA_ASSIGN_OR_RETURN(StoredTensor tensor, ReadTensor(name, entry));
      tensors.emplace(name, std::move(tensor));
    }
    FERMATA_RETURN_IF_ERROR(CheckTiling(tensors, {data_, 1, source_}));
    return tensors;
  }

 private:
  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", why));
  }
  absl::Status TensorError(const std::string& name, const std::string& why) const {
    return Error(absl::StrCat("tensor ", Quoted(name), ": ", why));
  }

  // The header as JSON; sets data_.
  absl::StatusOr<json> ReadHeader() {
    if (file_.size() < kLengthBytes) {
      return Error(absl::StrCat("truncated: ", file_.size(), " bytes are no .safetensors file"));
    }
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
      return Error(absl::StrCat("header length ", length, " is over the limit of ",
                                kMaxSafetensorsHeader, " bytes"));
    }
    if (length > file_.size() - kLengthBytes) {
      return Error(absl::StrCat("truncated: header length ", length, " in a file of ", file_.size(),
                                " bytes"));
    }
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length);
    data_ = file_.subspan(kLengthBytes + length);
    FERMATA_ASSIGN_OR_RETURN(json header, ParseJson(text, source_ + ": header"));
    if (!header.is_object()) return Error("header: not a JSON object");
    return header;
  }

  absl::Status CheckMetadata(const json& metadata) const {
    const bool strings =
        metadata.is_object() &&
        std::ranges::all_of(metadata, [](const json& value) { return value.is_string(); });
    return strings ? absl::OkStatus()
                   : Error("header: __metadata__ does not map strings to strings");
  }

  absl::StatusOr<StoredTensor> ReadTensor(const std::string& name, const json& entry) const {
    static constexpr const char* kFields[] = {"dtype", "shape", "data_offsets"};
    if (!entry.is_object()) return TensorError(name, "not described by a JSON object");
    for (const char* field : kFields) {
      if (!entry.contains(field)) {
        return TensorError(name, absl::StrCat(field, " is missing"));
      }
    }
    for (const auto& [field, value] : entry.items()) {
      if (std::ranges::find(kFields, field) == std::end(kFields)) {
        return TensorError(name, absl::StrCat("unknown field ", Quoted(field)));
      }
    }
    const json& dtype = entry["dtype"];
    if (!dtype.is_string()) return TensorError(name, "dtype is not a string");
    StoredTensor tensor;
    tensor.dtype = dtype.get<std::string>();
    FERMATA_ASSIGN_OR_RETURN(tensor.shape, Integers(name, "shape", entry));
    FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                             Integers(name, "data_offsets", entry));
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      return TensorError(name, absl::StrCat("data_offsets [", absl::StrJoin(offsets, ", "),
                                            "] are not a begin and an end"));
    }
    const auto [begin, end] = std::pair(offsets[0], offsets[1]);
    if (end > static_cast<int64_t>(data_.size())) {
      return TensorError(
          name, absl::StrCat("data_offsets [", begin, ", ", end, "] reach past the file's ",
                             data_.size(), " bytes of data"));
    }
    tensor.data = data_.subspan(begin, end - begin);
    FERMATA_RETURN_IF_ERROR(CheckSize(name, tensor));
    return tensor;
  }

  // A list of integers in [0, 2^63).
  absl::StatusOr<std::vector<int64_t>> Integers(const std::string& name, const char* field,
                                                const json& entry) const {
    std::vector<int64_t> result;
    const json& list = entry[field];
    if (!list.is_array()) return TensorError(name, absl::StrCat(field, " is not a list"));
    if (list.size() > kMaxRank) {
      return TensorError(name, absl::StrCat(field, " holds ", list.size(), " numbers"));
    }
    for (const json& element : list) {
      if (!element.is_number_unsigned() ||
          element.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        return TensorError(name, absl::StrCat(field, " holds what is no length"));
      }
      result.push_back(element.get<int64_t>());
    }
    return result;
  }

  absl::Status CheckSize(const std::string& name, const StoredTensor& tensor) const {
    const std::optional<int64_t> elements = ElementCount(tensor.shape);
    if (!elements.has_value()) {
      return TensorError(name, absl::StrCat("shape ", tensor.ShapeText(), " overflows"));
    }
    const ElementType* type = FindElementType(tensor.dtype);
    if (type == nullptr ||
        type->BytesFor(*elements) == std::optional<int64_t>(tensor.data.size())) {
      return absl::OkStatus();
    }
    return TensorError(name, absl::StrCat("shape ", tensor.ShapeText(), " of ", tensor.dtype,
                                          " does not take the ", tensor.data.size(),
                                          " bytes that data_offsets give it"));
  }

  std::span<const std::byte> file_;
  std::string source_;
  std::span<const std::byte> data_;
};

}  // namespace

absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file,
                                               std::string_view source) {
  return HeaderReader(file, source).Read();
}

}  // namespace fermata
