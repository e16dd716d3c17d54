#include "engine/model/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/widen.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;

constexpr char kWeightsFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kExtension[] = ".safetensors";

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

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& directory) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(directory));
  const fs::path path(directory);
  if (Exists(path / kWeightsFile)) {
    FERMATA_RETURN_IF_ERROR(checkpoint->Add(kWeightsFile));
  } else if (Exists(path / kIndexFile)) {
    FERMATA_RETURN_IF_ERROR(checkpoint->AddShards(path / kIndexFile));
  } else {
    FERMATA_ASSIGN_OR_RETURN(const std::string name, checkpoint->OnlyFile());
    FERMATA_RETURN_IF_ERROR(checkpoint->Add(name));
  }
  return checkpoint;
}

absl::Status Checkpoint::Add(const std::string& file_name) {
  FERMATA_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(fs::path(directory_) / file_name));
  const auto& file = files_.emplace_back(std::make_unique<MappedFile>(std::move(mapped)));
  FERMATA_ASSIGN_OR_RETURN(StoredTensors tensors, ParseSafetensors(file->bytes(), file->path()));
  for (auto& [name, tensor] : tensors) {
    const auto [it, inserted] = tensors_.try_emplace(name, Located{file.get(), std::move(tensor)});
    if (!inserted) {
      return TensorError(file->path(), name, "also stands in " + it->second.file->path());
    }
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddShards(const std::string& index_path) {
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
        !file.ends_with(kExtension)) {
      return TensorError(index_path, name,
                         Quoted(file) + " is not the name of a .safetensors file beside the index");
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

absl::StatusOr<std::string> Checkpoint::OnlyFile() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == kExtension) names.push_back(it->path().filename());
  }
  if (error) return absl::NotFoundError(absl::StrCat(directory_, ": ", error.message()));
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat(directory_, ": no ", kWeightsFile, ", ", kIndexFile,
                                            " or other *", kExtension));
  }
  if (names.size() > 1) {
    std::ranges::sort(names);
    return absl::InvalidArgumentError(absl::StrCat(directory_, ": several files and no ",
                                                   kIndexFile, ": ", absl::StrJoin(names, ", ")));
  }
  return names.front();
}

absl::StatusOr<AlignedBuffer<float>> Checkpoint::Read(std::string_view name,
                                                      std::span<const int64_t> shape) {
  const auto it = tensors_.find(name);
  const std::string wanted = absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  if (it == tensors_.end()) {
    return absl::NotFoundError(
        absl::StrCat(directory_, ": tensor ", Quoted(name), " of shape ", wanted, " is missing"));
  }
  const auto& [file, tensor] = it->second;
  if (!std::ranges::equal(tensor.shape, shape)) {
    return TensorError(file->path(), name,
                       absl::StrCat("shape ", tensor.ShapeText(), ", wanted ", wanted));
  }
  if (!CanWiden(tensor.dtype)) {
    return TensorError(file->path(), name,
                       absl::StrCat("type ", Quoted(tensor.dtype), ", wanted F32, F16 or BF16"));
  }
  AlignedBuffer<float> values(tensor.size());
  const int64_t bad = Widen(tensor.dtype, tensor.data, values.span());
  if (bad >= 0) {
    return TensorError(file->path(), name, absl::StrCat("value ", bad, " is not a finite number"));
  }
  used_.emplace(name);
  return values;
}

bool Checkpoint::Has(std::string_view name) const { return tensors_.contains(name); }

std::string Checkpoint::Fingerprint(std::string_view config) const {
  static constexpr std::string_view kLayout = "fermata model 1";
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  Update(hash.get(), kLayout.data(), kLayout.size());
  Update(hash.get(), config.data(), config.size());
  for (const auto& [name, located] : tensors_) {
    const StoredTensor& tensor = located.tensor;
    Update(hash.get(), name.data(), name.size());
    Update(hash.get(), tensor.dtype.data(), tensor.dtype.size());
    Update(hash.get(), tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    Update(hash.get(), tensor.data.data(), tensor.data.size());
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return absl::StrFormat("%016x%016x", digest.high64, digest.low64);
}

std::string Checkpoint::dtype() const {
  std::set<std::string> dtypes;
  for (const std::string& name : used_) dtypes.insert(tensors_.find(name)->second.tensor.dtype);
  if (dtypes.empty()) return "";
  return dtypes.size() == 1 ? *dtypes.begin() : "mixed";
}

std::vector<std::string> Checkpoint::Unused() const {
  std::vector<std::string> unused;
  for (const auto& [name, located] : tensors_) {
    if (!used_.contains(name)) unused.push_back(name);
  }
  return unused;
}

}  // namespace fermata
