#ifndef FERMATA_ENGINE_KERNELS_MATMUL_LIBRARY_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "engine/kernels/matmul_dispatch.h"

namespace fermata {

// oneDNN's matrix products. matmul_library.cc alone includes the library, so that another version
// is a change of that file.

// What the library takes this processor for.
ProcessorClass LibraryProcessorClass();

// The types of x, W and y.
enum class LibraryTypes {
  kF32,   // float32 throughout.
  kBf16,  // bfloat16 x and W, float32 y.
  kInt8,  // uint8 x, int8 W, int32 y.
};

struct LibraryShape {
  LibraryTypes types;
  int64_t out_features;
  int64_t in_features;

  bool operator<(const LibraryShape& other) const {
    return std::tie(types, out_features, in_features) <
           std::tie(other.types, other.out_features, other.in_features);
  }
};

// All that the matrices of one shape share: how weights are packed, and a primitive for each number
// of rows and threads, made when first wanted. Thread-safe.
class LibraryProduct {
 public:
  virtual ~LibraryProduct() = default;

  // The one object of this shape, kept for the life of the process. Null where the library has no
  // blocked kernel for it, and where its result for a row would depend on the number of rows; the
  // library does not document what makes it so, so that is tried out.
  static const LibraryProduct* For(const LibraryShape& shape);

  // Packed weights. Those of kBf16 and kInt8 have the layout of matmul_lines.h, with in_features
  // rounded up to a line's multiple.
  virtual size_t packed_bytes() const = 0;
  // Packs weights [out_features, in_features], row-major; kF32 only.
  virtual void Pack(const float* weights, void* packed) const = 0;

  // y [rows, out_features] = x [rows, in_features] · Wᵀ, all dense. Makes primitives for each
  // number of rows, so that should be bounded. The process ends when memory runs out.
  virtual void Multiply(const void* x, int64_t rows, const void* packed, void* y) const = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_LIBRARY_H_
