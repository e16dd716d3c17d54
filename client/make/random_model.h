#ifndef FERMATA_CLIENT_MAKE_RANDOM_MODEL_H_
#define FERMATA_CLIENT_MAKE_RANDOM_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/make/families.h"

namespace fermata::make {

enum class DType { kF32, kBf16, kF16 };

struct RandomModelOptions {
  std::string directory;  // Made when it is missing; must be empty.
  const Family* family = nullptr;
  Shape shape;
  DType dtype = DType::kBf16;
  uint64_t seed = 1;
};

struct RandomModel {
  int64_t parameters = 0;
  int64_t tensors = 0;
  int64_t bytes = 0;  // Of the weights.
};

// Writes a model directory of random weights that a server loads: config.json as the family's
// authors have it, model.safetensors with the canonical names, and, but for models of 256 bytes, a
// vocabulary of made-up words. The same options give the same files. Tensors are drawn and written
// one by one. `progress` is told how much of the weights is written.
//
// INVALID_ARGUMENT for a shape that the family can not have, ALREADY_EXISTS for a directory that is
// not empty, and what the file system says. Where it fails nothing can be taken for a whole model.
absl::StatusOr<RandomModel> WriteRandomModel(
    const RandomModelOptions& options,
    absl::FunctionRef<void(int64_t bytes, int64_t of_bytes)> progress);

}  // namespace fermata::make

#endif  // FERMATA_CLIENT_MAKE_RANDOM_MODEL_H_
