#include "engine/model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/only_file.h"
#include "engine/formats/safetensors.h"
#include "engine/formats/torch_file.h"
#include "engine/formats/widen.h"
#include "engine/kernels/matmul.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;

constexpr char kSafetensors[] = ".safetensors";
constexpr char kGguf[] = ".gguf";
constexpr std::string_view kTorch[] = {".pth", ".pt", ".bin"};

// Where a directory's weights may lie, the first that is there.
struct Place {
  std::string_view file;  // A file's name, behind which shards may stand in an index; or empty:
  std::string_view extension;  // the only file of the extension. Of shards, too.
};
constexpr Place kPlaces[] = {
    {"model.safetensors", kSafetensors}, {"", kSafetensors}, {"", kGguf},
    {"pytorch_model.bin", ".bin"},       {"", ".pth"},
};
constexpr std::string_view kIndexSuffix = ".index.json";

constexpr char kSplitCount[] = "split.count";

absl::Status TensorError(const std::string& where, std::string_view name, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": tensor ", Quoted(name), ": ", why));
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Hashes a string with its length, so that what follows one another can not be cut differently.
void Update(XXH3_state_t* hash, const void* data, uint64_t size) {
  XXH3_128bits_update(hash, &size, sizeof(size));
  XXH3_128bits_update(hash, data, size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(path));
    FERMATA_RETURN_IF_ERROR(checkpoint->AddDirectory());
    return checkpoint;
  }
  const fs::path file(path);
  std::unique_ptr<Checkpoint> checkpoint(
      new Checkpoint(file.has_parent_path() ? file.parent_path().string() : "."));
  FERMATA_RETURN_IF_ERROR(checkpoint->Add(file.filename()));
  return checkpoint;
}

absl::Status Checkpoint::AddDirectory() {
  for (const Place& place : kPlaces) {
    std::string name(place.file);
    if (name.empty()) {
      FERMATA_ASSIGN_OR_RETURN(name, OnlyFile(directory_, place.extension));
      if (!name.empty()) return Add(name);
      continue;
    }
    const fs::path path = fs::path(directory_) / name;
    if (Exists(path)) return Add(name);
    const std::string index = path.string() + std::string(kIndexSuffix);
    if (Exists(index)) return AddShards(index, place.extension);
  }
  return absl::NotFoundError(
      absl::StrCat(directory_,
                   ": no model.safetensors, pytorch_model.bin, index of shards of "
                   "either, or other *.safetensors, *.gguf or *.pth"));
}

absl::Status Checkpoint::Add(const std::string& file_name) {
  FERMATA_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(fs::path(directory_) / file_name));
  const auto& file = files_.emplace_back(std::make_unique<MappedFile>(std::move(mapped)));
  FERMATA_ASSIGN_OR_RETURN(StoredTensors tensors, Parse(*file));
  for (auto& [name, tensor] : tensors) {
    const auto [it, inserted] = tensors_.try_emplace(name, Located{file.get(), std::move(tensor)});
    if (!inserted) {
      return TensorError(file->path(), name, "also stands in " + it->second.file->path());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTensors> Checkpoint::Parse(const MappedFile& file) {
  const std::string extension = fs::path(file.path()).extension();
  if (extension == kSafetensors) return ParseSafetensors(file.bytes(), file.path());
  if (std::ranges::find(kTorch, extension) != std::end(kTorch)) {
    return ParseTorchFile(file.bytes(), file.path());
  }
  if (extension != kGguf) {
    return absl::InvalidArgumentError(file.path() +
                                      ": not a .safetensors, .gguf, .pth, .pt or .bin by its name");
  }
  FERMATA_ASSIGN_OR_RETURN(gguf_, GgufFile::Parse(file.bytes(), file.path()));
  FERMATA_ASSIGN_OR_RETURN(const int64_t parts, gguf_->Int(kSplitCount, 0, UINT16_MAX, 1));
  if (parts > 1) {
    return gguf_->Error(kSplitCount, absl::StrCat("one of ", parts,
                                                  " parts of a model: merge them "
                                                  "with llama-gguf-split --merge"));
  }
  return gguf_->tensors();
}

absl::Status Checkpoint::AddShards(const std::string& index_path, std::string_view extension) {
  FERMATA_ASSIGN_OR_RETURN(const MappedFile index, MappedFile::Open(index_path));
  FERMATA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(index.text(), index_path));
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(index_path + ": weight_map: missing, empty or no object");
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    // A shard lies beside its index: a name that leads elsewhere is not followed.
    if (file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
        !file.ends_with(extension)) {
      return TensorError(index_path, name,
                         absl::StrCat(Quoted(file), " is not the name of a ",
                                      std::string(extension), " file beside the index"));
    }
    shards.insert(file);
  }
  for (const std::string& shard : shards) FERMATA_RETURN_IF_ERROR(Add(shard));
  for (const auto& [name, shard] : map->items()) {
    const auto it = tensors_.find(name);
    const fs::path path = fs::path(directory_) / shard.get<std::string>();
    if (it == tensors_.end() || it->second.file->path() != path) {
      return TensorError(index_path, name, "not in " + path.string());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AlignedBuffer<float>> Checkpoint::Read(std::string_view name,
                                                      std::span<const int64_t> shape) {
  const std::string wanted = absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  return ReadIf(name, wanted, [shape](const StoredTensor& tensor) {
    return std::ranges::equal(tensor.shape, shape);
  });
}

absl::StatusOr<AlignedBuffer<float>> Checkpoint::ReadReshaped(std::string_view name,
                                                              int64_t count) {
  return ReadIf(name, absl::StrCat("any of ", count, " numbers"),
                [count](const StoredTensor& tensor) { return tensor.size() == count; });
}

absl::StatusOr<AlignedBuffer<float>> Checkpoint::ReadIf(
    std::string_view name, const std::string& wanted,
    absl::FunctionRef<bool(const StoredTensor&)> fits) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return absl::NotFoundError(
        absl::StrCat(directory_, ": tensor ", Quoted(name), " of shape ", wanted, " is missing"));
  }
  const auto& [file, tensor] = it->second;
  if (!fits(tensor)) {
    return TensorError(file->path(), name,
                       absl::StrCat("shape ", tensor.ShapeText(), ", wanted ", wanted));
  }
  if (!CanWiden(tensor.dtype)) {
    return TensorError(
        file->path(), name,
        absl::StrCat("type ", Quoted(tensor.dtype), ", wanted ", std::string(kReadableTypes)));
  }
  ReportBefore(name);
  auto values = AlignedBuffer<float>::ToBeFilled(tensor.size());
  const int64_t bad = Widen(tensor.dtype, tensor.data, values.span());
  if (bad >= 0) {
    return TensorError(file->path(), name, absl::StrCat("value ", bad, " is not a finite number"));
  }
  file->Release(tensor.data);
  Count(name, tensor);
  return values;
}

void Checkpoint::ReportBefore(std::string_view name) const {
  if (progress_ == nullptr || used_.contains(name)) return;
  progress_({.phase = LoadProgress::Phase::kWeights,
             .tensors_done = static_cast<int64_t>(used_.size()),
             .tensors = static_cast<int64_t>(tensors_.size()),
             .bytes_done = used_bytes_,
             .bytes = StoredBytes()});
}

void Checkpoint::Count(std::string_view name, const StoredTensor& tensor) {
  if (used_.emplace(name).second) used_bytes_ += static_cast<int64_t>(tensor.data.size());
}

int64_t Checkpoint::StoredBytes() const {
  size_t bytes = 0;
  for (const auto& [name, located] : tensors_) bytes += located.tensor.data.size();
  return static_cast<int64_t>(bytes);
}

WeightType Checkpoint::matrix_type(std::string_view name) const {
  if (matrix_type_.has_value()) return *matrix_type_;
  const StoredTensor* tensor = Find(name);
  return tensor == nullptr ? WeightType::kF32 : AutoWeightType(tensor->dtype);
}

absl::StatusOr<std::optional<WeightBlocks>> Checkpoint::ReadBlocks(std::string_view name,
                                                                   std::span<const int64_t> shape) {
  const StoredTensor* tensor = Find(name);
  if (matrix_type_.has_value() || tensor == nullptr) return std::nullopt;
  const bool is_q8 = tensor->dtype == "Q8_0";
  if (!is_q8 && tensor->dtype != "Q4_0") return std::nullopt;
  if (!std::ranges::equal(tensor->shape, shape)) return std::nullopt;  // Read says what is wrong.
  ReportBefore(name);
  Count(name, *tensor);
  return WeightBlocks{is_q8 ? BlockType::kQ8_0 : BlockType::kQ4_0, tensor->data};
}

bool Checkpoint::Has(std::string_view name) const { return tensors_.contains(name); }

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const auto& [name, located] : tensors_) names.push_back(name);
  return names;
}

const StoredTensor* Checkpoint::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second.tensor;
}

std::string Checkpoint::Fingerprint(std::string_view config) const {
  static constexpr std::string_view kLayout = "fermata model 1";
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  Update(hash.get(), kLayout.data(), kLayout.size());
  Update(hash.get(), config.data(), config.size());
  LoadProgress progress = {.phase = LoadProgress::Phase::kFingerprint,
                           .tensors = static_cast<int64_t>(tensors_.size()),
                           .bytes = StoredBytes()};
  const auto report = [&] {
    if (progress_ != nullptr) progress_(progress);
  };
  for (const auto& [name, located] : tensors_) {
    const StoredTensor& tensor = located.tensor;
    report();
    Update(hash.get(), name.data(), name.size());
    Update(hash.get(), tensor.dtype.data(), tensor.dtype.size());
    Update(hash.get(), tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    Update(hash.get(), tensor.data.data(), tensor.data.size());
    located.file->Release(tensor.data);
    ++progress.tensors_done;
    progress.bytes_done += static_cast<int64_t>(tensor.data.size());
  }
  report();
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return absl::StrFormat("%016x%016x", digest.high64, digest.low64);
}

std::string Checkpoint::dtype() const {
  const std::map<std::string, int64_t> counts = dtypes();
  if (counts.empty()) return "";
  return counts.size() == 1 ? counts.begin()->first : "mixed";
}

std::map<std::string, int64_t> Checkpoint::dtypes() const {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : used_) ++counts[tensors_.find(name)->second.tensor.dtype];
  return counts;
}

std::vector<std::string> Checkpoint::Unused() const {
  std::vector<std::string> unused;
  for (const auto& [name, located] : tensors_) {
    if (!used_.contains(name)) unused.push_back(name);
  }
  return unused;
}

}  // namespace fermata
