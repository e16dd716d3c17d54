#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/formats/byte_reader.h"
#include "engine/formats/element_type.h"
#include "engine/formats/gguf.h"

namespace fermata {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint32_t kMaxRank = 4;
constexpr size_t kMaxKeyBytes = 65535;
// The least that a key, and a tensor, takes: so many at most can be in a file.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// By ggml's number; empty where ggml has dropped a type, whose numbers nothing reads any more.
constexpr std::string_view kTypes[] = {
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4", "Q1_0",   "Q2_0",
};

}  // namespace

// Reads one file from front to back; holds what every error has to say.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> file, std::string_view source)
      : bytes_(file), reader_(file) {
    file_.source_ = source;
  }

  absl::StatusOr<GgufFile> Parse() {
    FERMATA_RETURN_IF_ERROR(ReadHeader());
    for (uint64_t i = 0; i < num_keys_; ++i) FERMATA_RETURN_IF_ERROR(ReadKey());
    FERMATA_RETURN_IF_ERROR(ReadAlignment());
    // Offsets count from where the list of tensors ends, which is not known yet.
    for (uint64_t i = 0; i < num_tensors_; ++i) FERMATA_RETURN_IF_ERROR(ReadTensor());
    FERMATA_RETURN_IF_ERROR(PlaceTensors());
    return std::move(file_);
  }

 private:
  using Type = GgufFile::Type;
  using Value = GgufFile::Value;

  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.source_, ": ", why));
  }
  absl::Status Truncated(const std::string& what) const {
    return Error(absl::StrCat("truncated: ", what, " at byte ", reader_.offset(),
                              " reaches past the file's ", bytes_.size(), " bytes"));
  }
  absl::Status TensorError(std::string_view name, const std::string& why) const {
    return Error(absl::StrCat("tensor ", Quoted(name), ": ", why));
  }

  absl::Status ReadHeader() {
    uint32_t magic = 0;
    if (!reader_.Read(&magic) || magic != kMagic) return Error("not a GGUF file");
    uint32_t& version = file_.version_;
    if (!reader_.Read(&version)) return Truncated("the header");
    if (version != 0 && (version & 0xffff) == 0) {
      return Error("a big-endian GGUF file, which is not read: convert the model again");
    }
    if (version == 1) return Error("GGUF version 1 is not read: convert the model again");
    if (version != 2 && version != 3) {
      return Error(absl::StrCat("GGUF version ", version, " is not read, only 2 and 3"));
    }
    if (!reader_.Read(&num_tensors_) || !reader_.Read(&num_keys_)) return Truncated("the header");
    if (num_keys_ > reader_.left() / kMinKeyBytes) {
      return Error(absl::StrCat("truncated: ", num_keys_, " keys in ", bytes_.size(), " bytes"));
    }
    if (num_tensors_ > reader_.left() / kMinTensorBytes) {
      return Error(
          absl::StrCat("truncated: ", num_tensors_, " tensors in ", bytes_.size(), " bytes"));
    }
    return absl::OkStatus();
  }

  // A string in UTF-8 behind its length; `what` names it in errors.
  absl::Status ReadString(const std::string& what, std::string_view* text) {
    uint64_t length = 0;
    if (!reader_.Read(&length)) return Truncated(what);
    if (!reader_.Read(length, text)) {
      return Truncated(absl::StrCat(what, " of ", length, " bytes"));
    }
    return IsUtf8(*text) ? absl::OkStatus()
                         : Error(absl::StrCat(what, " before byte ", reader_.offset(),
                                              " is not UTF-8: ", Quoted(*text)));
  }

  absl::Status ReadKey() {
    std::string_view key;
    FERMATA_RETURN_IF_ERROR(ReadString("a key's name", &key));
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return Error(
          absl::StrCat("a key's name of ", key.size(), " bytes before byte ", reader_.offset()));
    }
    uint32_t type = 0;
    if (!reader_.Read(&type)) return Truncated("key " + Quoted(key));
    Value value{static_cast<Type>(type), false, 1, {}};
    if (value.type == Type::kArray) {
      value.is_array = true;
      if (!reader_.Read(&type) || !reader_.Read(&value.count)) {
        return Truncated("key " + Quoted(key));
      }
      value.type = static_cast<Type>(type);
      if (value.type == Type::kArray) return file_.Error(key, "an array of arrays");
    }
    if (type > static_cast<uint32_t>(Type::kFloat64)) {
      return file_.Error(key, absl::StrCat("value type ", type, " is not one of GGUF's"));
    }
    FERMATA_RETURN_IF_ERROR(value.type == Type::kString ? ReadStrings(key, &value)
                                                        : ReadNumbers(key, &value));
    if (!file_.values_.emplace(key, value).second) return file_.Error(key, "stands twice");
    return absl::OkStatus();
  }

  absl::Status ReadStrings(std::string_view key, Value* value) {
    const size_t begin = reader_.offset();
    for (uint64_t i = 0; i < value->count; ++i) {
      std::string_view text;
      FERMATA_RETURN_IF_ERROR(ReadString(absl::StrCat("key ", Quoted(key), ": string ", i), &text));
    }
    value->bytes = bytes_.subspan(begin, reader_.offset() - begin);
    return absl::OkStatus();
  }

  absl::Status ReadNumbers(std::string_view key, Value* value) {
    static constexpr uint64_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const uint64_t width = kWidths[static_cast<size_t>(value->type)];
    if (value->count > reader_.left() / width ||
        !reader_.Read(value->count * width, &value->bytes)) {
      return Truncated(absl::StrCat("key ", Quoted(key), ": ", value->count, " values"));
    }
    if (value->type == Type::kBool &&
        std::ranges::any_of(value->bytes, [](std::byte b) { return b > std::byte{1}; })) {
      return file_.Error(key, "a bool that is neither 0 nor 1");
    }
    return absl::OkStatus();
  }

  absl::Status ReadAlignment() {
    FERMATA_ASSIGN_OR_RETURN(alignment_,
                             file_.Int(kAlignmentKey, 1, UINT32_MAX, kDefaultAlignment));
    if ((alignment_ & (alignment_ - 1)) == 0) return absl::OkStatus();
    return file_.Error(kAlignmentKey, absl::StrCat(alignment_, " is not a power of two"));
  }

  absl::Status ReadTensor() {
    std::string_view name;
    FERMATA_RETURN_IF_ERROR(ReadString("a tensor's name", &name));
    const std::string what = "tensor " + Quoted(name);
    uint32_t rank = 0;
    if (!reader_.Read(&rank)) return Truncated(what);
    if (rank > kMaxRank) return TensorError(name, absl::StrCat("has ", rank, " dimensions"));
    Listed tensor;
    for (uint32_t i = 0; i < rank; ++i) {
      uint64_t extent = 0;
      if (!reader_.Read(&extent)) return Truncated(what);
      if (extent > static_cast<uint64_t>(INT64_MAX)) {
        return TensorError(name, absl::StrCat("an extent of ", extent));
      }
      tensor.stored.shape.insert(tensor.stored.shape.begin(), static_cast<int64_t>(extent));
    }
    uint32_t type = 0;
    if (!reader_.Read(&type) || !reader_.Read(&tensor.offset)) return Truncated(what);
    if (type >= std::size(kTypes) || kTypes[type].empty()) {
      return TensorError(name, absl::StrCat("element type ", type, " is not one of ggml's"));
    }
    tensor.stored.dtype = kTypes[type];
    FERMATA_RETURN_IF_ERROR(Measure(name, &tensor));
    if (!listed_.emplace(name, std::move(tensor)).second) return TensorError(name, "stands twice");
    return absl::OkStatus();
  }

  struct Listed {
    StoredTensor stored;  // Without its data.
    uint64_t offset = 0;
    int64_t bytes = 0;
  };

  absl::Status Measure(std::string_view name, Listed* tensor) const {
    const StoredTensor& stored = tensor->stored;
    const ElementType* type = FindElementType(stored.dtype);
    assert(type != nullptr);
    const std::optional<int64_t> count = ElementCount(stored.shape);
    // Blocks do not cross rows.
    const int64_t row = stored.shape.empty() ? 1 : stored.shape.back();
    const std::optional<int64_t> bytes = count.has_value() ? type->BytesFor(*count) : std::nullopt;
    if (row % type->block != 0) {
      return TensorError(name, absl::StrCat("rows of ", row, " are no whole blocks of ",
                                            stored.dtype, ", which hold ", type->block));
    }
    if (!bytes.has_value()) {
      return TensorError(name, absl::StrCat("shape ", stored.ShapeText(), " overflows"));
    }
    tensor->bytes = *bytes;
    return absl::OkStatus();
  }

  absl::Status PlaceTensors() {
    const auto alignment = static_cast<uint64_t>(alignment_);
    const uint64_t begin = (reader_.offset() + alignment - 1) / alignment * alignment;
    const auto data = begin < bytes_.size() ? bytes_.subspan(begin) : std::span<const std::byte>();
    for (auto& [name, tensor] : listed_) {
      if (tensor.offset % alignment != 0) {
        return TensorError(name, absl::StrCat("offset ", tensor.offset, " is not a multiple of ",
                                              kAlignmentKey.data(), " ", alignment));
      }
      if (tensor.offset > data.size() ||
          static_cast<uint64_t>(tensor.bytes) > data.size() - tensor.offset) {
        return TensorError(
            name, absl::StrCat("truncated: ", tensor.bytes, " bytes at data offset ", tensor.offset,
                               " reach past the file's ", data.size(), " bytes of data"));
      }
      tensor.stored.data = data.subspan(tensor.offset, tensor.bytes);
      file_.tensors_.emplace(name, std::move(tensor.stored));
    }
    return CheckTiling(file_.tensors_, {data, alignment_, file_.source_});
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  GgufFile file_;
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  int64_t alignment_ = 0;
  std::map<std::string_view, Listed, std::less<>> listed_;
};

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> file, std::string_view source) {
  return GgufParser(file, source).Parse();
}

}  // namespace fermata
