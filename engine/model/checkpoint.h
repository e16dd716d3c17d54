#ifndef FERMATA_ENGINE_MODEL_CHECKPOINT_H_
#define FERMATA_ENGINE_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/mapped_file.h"
#include "engine/base/weights.h"
#include "engine/formats/safetensors.h"

namespace fermata {

// The weights of a model directory, as their authors publish them: `model.safetensors`, or shards
// that `model.safetensors.index.json` names, or one .safetensors file of any other name. Files are
// mapped, checked whole at opening, and kept mapped for the object's life. Not thread-safe.
class Checkpoint : public WeightSource {
 public:
  // NOT_FOUND or INVALID_ARGUMENT that names the file, and the tensor where there is one: a shard
  // that is missing or that lies outside the directory, a tensor that the index promises and its
  // shard does not hold, a tensor that two shards hold.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& directory);

  // F32 as stored; F16 and BF16 widened, which is exact. Any other type, another shape, NaN and
  // infinities are errors.
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  bool Has(std::string_view name) const override;

  // 32 hex digits that stand for the model: XXH3-128 over `config` and, in the order of their
  // names, over every tensor's name, type, shape and bytes. How the tensors are spread over files,
  // and those files' names, do not matter. Reads all bytes once.
  std::string Fingerprint(std::string_view config) const;

  // The stored type of the tensors read so far: "F32", or "mixed" where there are several.
  std::string dtype() const;
  // Names of the tensors that nobody has read.
  std::vector<std::string> Unused() const;

 private:
  struct Located {
    const MappedFile* file;
    StoredTensor tensor;
  };

  explicit Checkpoint(std::string directory) : directory_(std::move(directory)) {}

  // Maps one file and adds its tensors.
  absl::Status Add(const std::string& file_name);
  absl::Status AddShards(const std::string& index_path);
  absl::StatusOr<std::string> OnlyFile() const;

  std::string directory_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, Located, std::less<>> tensors_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_CHECKPOINT_H_
