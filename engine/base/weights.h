#ifndef FERMATA_ENGINE_BASE_WEIGHTS_H_
#define FERMATA_ENGINE_BASE_WEIGHTS_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"

namespace fermata {

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
  const std::string& prefix() const { return prefix_; }

 private:
  WeightSource* source_;
  std::string prefix_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_WEIGHTS_H_
