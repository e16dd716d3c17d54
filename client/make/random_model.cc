#include "client/make/random_model.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/make/vocabulary.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/config_reader.h"
#include "engine/base/status.h"
#include "engine/model/random_weights.h"

namespace fermata::make {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kByteVocab = 256;
constexpr int64_t kMaxVocab = 1'000'000;
constexpr size_t kHeaderAlignment = 8;
constexpr char kWeightsFile[] = "model.safetensors";

struct TypeNames {
  std::string_view stored;  // In safetensors.
  std::string_view torch;   // In config.json.
  int64_t size;
};
constexpr TypeNames kTypes[] = {
    {"F32", "float32", 4}, {"BF16", "bfloat16", 2}, {"F16", "float16", 2}};

const TypeNames& NamesOf(DType dtype) { return kTypes[static_cast<int>(dtype)]; }

// To the nearest, ties to even. Of finite numbers.
uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// To the nearest, ties to even. Of numbers that binary16 reaches, which weights are.
uint16_t ToF16(float value) {
  constexpr float kLeastNormal = 0x1p-14f;
  constexpr uint32_t kRebias = (127 - 15) << 10;
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
  const float magnitude = std::abs(value);
  if (magnitude < kLeastNormal) {  // Whole steps of 2^-24.
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  return sign | static_cast<uint16_t>(((bits + 0xfff + ((bits >> 13) & 1)) >> 13) - kRebias);
}

// The numbers as bytes of a file.
std::vector<char> Stored(std::span<const float> values, DType dtype) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(NamesOf(dtype).size));
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == DType::kBf16 ? ToBf16(values[i]) : ToF16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &half, sizeof(half));
  }
  return bytes;
}

int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// A file that is being written.
class Output {
 public:
  explicit Output(fs::path path) : path_(std::move(path)), file_(path_, std::ios::binary) {}

  void Write(std::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  bool ok() const { return file_.good(); }
  absl::Status Close() {
    file_.close();
    if (file_.good()) return absl::OkStatus();
    std::error_code ignored;
    fs::remove(path_, ignored);
    return absl::UnknownError(
        absl::StrCat(path_.string(), ": can not be written: ", std::strerror(errno)));
  }

 private:
  fs::path path_;
  std::ofstream file_;
};

absl::Status WriteFile(const fs::path& path, std::string_view text) {
  Output file(path);
  file.Write(text);
  return file.Close();
}

absl::Status CheckVocabulary(int64_t size) {
  if (size == kByteVocab || (size >= kMinVocabulary && size <= kMaxVocab)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", size, ": wanted ", kByteVocab,
                                                 ", which is one of bytes, or ", kMinVocabulary,
                                                 " to ", kMaxVocab));
}

absl::Status CheckEmpty(const std::string& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) return absl::OkStatus();
  if (fs::is_empty(directory, error) && !error) return absl::OkStatus();
  if (error) return absl::UnknownError(absl::StrCat(directory, ": ", error.message()));
  return absl::AlreadyExistsError(absl::StrCat(directory, ": is not empty"));
}

absl::Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(directory, ": ", error.message()));
}

std::string Header(const TensorShapes& tensors, const TypeNames& type) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    const int64_t end = offset + Count(shape) * type.size;
    header[name] = {
        {"dtype", std::string(type.stored)}, {"shape", shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

absl::Status WriteWeights(const RandomModelOptions& options, const TensorShapes& tensors,
                          const RandomModel& model,
                          absl::FunctionRef<void(int64_t, int64_t)> progress) {
  Output file(fs::path(options.directory) / kWeightsFile);
  const std::string header = Header(tensors, NamesOf(options.dtype));
  const auto header_size = static_cast<uint64_t>(header.size());
  file.Write({reinterpret_cast<const char*>(&header_size), sizeof(header_size)});
  file.Write(header);
  int64_t written = 0;
  for (const auto& [name, shape] : tensors) {
    if (!file.ok()) break;
    AlignedBuffer<float> values(Count(shape));
    DrawTensor(options.seed, name, shape, values.span());
    const std::vector<char> bytes = Stored(values.span(), options.dtype);
    file.Write({bytes.data(), bytes.size()});
    written += static_cast<int64_t>(bytes.size());
    progress(written, model.bytes);
  }
  return file.Close();
}

}  // namespace

absl::StatusOr<RandomModel> WriteRandomModel(
    const RandomModelOptions& options,
    absl::FunctionRef<void(int64_t bytes, int64_t of_bytes)> progress) {
  FERMATA_RETURN_IF_ERROR(CheckVocabulary(options.shape.vocab_size));
  FERMATA_RETURN_IF_ERROR(CheckEmpty(options.directory));
  const TypeNames& type = NamesOf(options.dtype);
  nlohmann::ordered_json config = MakeConfig(*options.family, options.shape);
  config["torch_dtype"] = std::string(type.torch);
  const std::string config_text = config.dump(2) + "\n";
  FERMATA_ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(config_text, "config.json"));
  FERMATA_ASSIGN_OR_RETURN(const TensorShapes tensors, ListTensors(reader));
  RandomModel model;
  for (const auto& [name, shape] : tensors) model.parameters += Count(shape);
  model.tensors = static_cast<int64_t>(tensors.size());
  model.bytes = model.parameters * type.size;

  FERMATA_RETURN_IF_ERROR(MakeDirectory(options.directory));
  const fs::path directory(options.directory);
  FERMATA_RETURN_IF_ERROR(WriteWeights(options, tensors, model, progress));
  if (options.shape.vocab_size != kByteVocab) {
    FERMATA_RETURN_IF_ERROR(
        WriteFile(directory / "vocab.txt", MakeVocabulary(options.shape.vocab_size)));
  }
  // Last: without it there is no model.
  FERMATA_RETURN_IF_ERROR(WriteFile(directory / "config.json", config_text));
  return model;
}

}  // namespace fermata::make
