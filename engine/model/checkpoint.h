#ifndef FERMATA_ENGINE_MODEL_CHECKPOINT_H_
#define FERMATA_ENGINE_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/mapped_file.h"
#include "engine/base/weights.h"
#include "engine/formats/gguf.h"
#include "engine/formats/stored_tensor.h"
#include "engine/model/load_progress.h"

namespace fermata {

// The weights of a model, as their authors publish them. Files are mapped, checked whole at opening,
// and kept mapped for the object's life. Not thread-safe.
class Checkpoint : public WeightSource {
 public:
  // `path` is a directory or one file of weights. A directory's weights are the first of these:
  //   model.safetensors, or the shards that model.safetensors.index.json names
  //   the only *.safetensors
  //   the only *.gguf
  //   pytorch_model.bin, or the shards that pytorch_model.bin.index.json names
  //   the only *.pth
  // What is in a file shows in its extension: .safetensors, .gguf, or PyTorch's .pth, .pt and .bin.
  //
  // NOT_FOUND or INVALID_ARGUMENT that names the file, and the tensor where there is one: a shard
  // that is missing or that lies outside the directory, a tensor that the index promises and its
  // shard does not hold, a tensor that two shards hold, several files of which none is named.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  // Numbers of kReadableTypes, widened (see Widen). Any other type, another shape, NaN and
  // infinities are errors.
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  absl::StatusOr<AlignedBuffer<float>> ReadReshaped(std::string_view name, int64_t count) override;
  bool Has(std::string_view name) const override;
  // As HoldMatricesAs says.
  WeightType matrix_type(std::string_view name) const override;
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(std::string_view name,
                                                         std::span<const int64_t> shape) override;

  // How matrices are to be held for multiplication, float32 until this is called; nullopt for each as
  // it is stored, as far as the processor multiplies that well (see AutoWeightType).
  void HoldMatricesAs(std::optional<WeightType> type) { matrix_type_ = type; }

  // Tells `progress` how far the reading of tensors, and Fingerprint, are.
  void ReportTo(LoadProgressFunction progress) { progress_ = std::move(progress); }

  // All tensors' names in the order of their bytes.
  std::vector<std::string_view> names() const;
  // A tensor as it is stored; null when there is none. Does not count as reading it.
  const StoredTensor* Find(std::string_view name) const;

  // Where the weights lie, and other files of the model with them.
  const std::string& directory() const { return directory_; }
  // The metadata of the weights' file, where it is a GGUF; null for other formats.
  const GgufFile* gguf() const { return gguf_.has_value() ? &*gguf_ : nullptr; }

  // 32 hex digits that stand for the model: XXH3-128 over `config` and, in the order of their
  // names, over every tensor's name, type, shape and bytes. How the tensors are spread over files,
  // and those files' names, do not matter. Reads all bytes once, and keeps none of them in memory.
  std::string Fingerprint(std::string_view config) const;

  // The stored type of the tensors read so far: "F32", or "mixed" where there are several.
  std::string dtype() const;
  // How many tensors were read so far, by stored type.
  std::map<std::string, int64_t> dtypes() const;
  // Names of the tensors that nobody has read.
  std::vector<std::string> Unused() const;

 private:
  struct Located {
    const MappedFile* file;
    StoredTensor tensor;
  };

  explicit Checkpoint(std::string directory) : directory_(std::move(directory)) {}

  // Finds what the directory holds, and adds it.
  absl::Status AddDirectory();
  // Maps one file and adds its tensors.
  absl::Status Add(const std::string& file_name);
  absl::StatusOr<StoredTensors> Parse(const MappedFile& file);
  // The files that an index names, each with the extension given.
  absl::Status AddShards(const std::string& index_path, std::string_view extension);
  // Reads a tensor that `fits`, which is what `wanted` says in errors.
  absl::StatusOr<AlignedBuffer<float>> ReadIf(std::string_view name, const std::string& wanted,
                                              absl::FunctionRef<bool(const StoredTensor&)> fits);

  // Reports what is done before tensor `name`, unless that has been read before.
  void ReportBefore(std::string_view name) const;
  // Counts it as read.
  void Count(std::string_view name, const StoredTensor& tensor);
  // Of all tensors.
  int64_t StoredBytes() const;

  std::string directory_;
  std::optional<WeightType> matrix_type_ = WeightType::kF32;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::optional<GgufFile> gguf_;
  std::map<std::string, Located, std::less<>> tensors_;
  std::set<std::string, std::less<>> used_;
  LoadProgressFunction progress_;
  int64_t used_bytes_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_CHECKPOINT_H_
