#ifndef FERMATA_ENGINE_BASE_WEIGHTS_H_
#define FERMATA_ENGINE_BASE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"

namespace fermata {

// How a matrix is held for multiplication (kernels/matmul.h says what each loses).
enum class WeightType { kF32, kBf16, kInt8, kInt4 };

inline constexpr std::pair<WeightType, std::string_view> kWeightTypeNames[] = {
    {WeightType::kF32, "f32"},
    {WeightType::kBf16, "bf16"},
    {WeightType::kInt8, "int8"},
    {WeightType::kInt4, "int4"}};

constexpr std::string_view WeightTypeName(WeightType type) {
  return kWeightTypeNames[static_cast<int>(type)].second;
}

constexpr std::optional<WeightType> WeightTypeFromName(std::string_view name) {
  for (const auto& [type, type_name] : kWeightTypeNames) {
    if (type_name == name) return type;
  }
  return std::nullopt;
}

// A matrix in blocks of 32 numbers along its rows, each block a binary16 scale and 32 small
// integers, as ggml's types of these names have them in files.
enum class BlockType { kQ8_0, kQ4_0 };

struct WeightBlocks {
  BlockType type;
  std::span<const std::byte> bytes;  // Row-major, at any alignment; the source's own.
};

// Where a layer's weights come from. A layer asks for each tensor by name and shape; that one call
// is at once the loader (from files), the validation (shapes, types, finiteness), the list of what
// a layer wants, and the source of random weights in tests.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Tensor `name` as float32, row-major, of exactly `shape` and with finite values only.
  // NOT_FOUND or INVALID_ARGUMENT, naming the tensor, what was wanted and what is there.
  virtual absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                                    std::span<const int64_t> shape) = 0;
  // Tensor `name` of `count` numbers, whatever the shape they are stored in; otherwise as Read.
  virtual absl::StatusOr<AlignedBuffer<float>> ReadReshaped(std::string_view name, int64_t count) {
    return Read(name, std::span<const int64_t>(&count, 1));
  }
  virtual bool Has(std::string_view name) const = 0;

  // How the matrix `name` is to be held for multiplication.
  virtual WeightType matrix_type(std::string_view /*name*/) const { return WeightType::kF32; }
  // The blocks in which tensor `name` is stored, where the source wants the matrix multiplied in
  // them rather than as its matrix_type; nullopt otherwise. Errors as of Read, except that numbers
  // are not looked at.
  virtual absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(
      std::string_view /*name*/, std::span<const int64_t> /*shape*/) {
    return std::nullopt;
  }
};

// A WeightSource seen from inside a module: names are relative to the module's prefix.
class WeightScope {
 public:
  WeightScope(WeightSource& source, std::string prefix)
      : source_(&source), prefix_(std::move(prefix)) {}

  // The scope of the child module `name`.
  WeightScope Child(std::string_view name) const {
    return WeightScope(*source_, prefix_ + std::string(name) + ".");
  }
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::initializer_list<int64_t> shape) const {
    return Read(name, std::span<const int64_t>(shape.begin(), shape.size()));
  }
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) const {
    return source_->Read(prefix_ + std::string(name), shape);
  }
  bool Has(std::string_view name) const { return source_->Has(prefix_ + std::string(name)); }
  WeightType matrix_type(std::string_view name) const {
    return source_->matrix_type(prefix_ + std::string(name));
  }
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(
      std::string_view name, std::initializer_list<int64_t> shape) const {
    return source_->ReadBlocks(prefix_ + std::string(name),
                               std::span<const int64_t>(shape.begin(), shape.size()));
  }
  const std::string& prefix() const { return prefix_; }

 private:
  WeightSource* source_;
  std::string prefix_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_WEIGHTS_H_
