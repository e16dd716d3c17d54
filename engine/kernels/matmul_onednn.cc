#include <memory>

#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_library.h"

namespace fermata {
namespace {

class OneDnnMatrix : public MatmulBackend {
 public:
  OneDnnMatrix(const LibraryProduct& library, const float* weights, int64_t out_features,
               int64_t in_features)
      : MatmulBackend(out_features, in_features),
        library_(library),
        packed_(library.packed_bytes()) {
    library_.Pack(weights, packed_.data());
  }

  int64_t bytes() const override { return static_cast<int64_t>(packed_.bytes()); }

  Way WayFor(int64_t) const override { return Way::kWhole; }
  void MultiplyWhole(const NarrowRows& x, float* y) const override {
    library_.Multiply(x.floats(0), x.rows(), packed_.data(), y);
  }

 private:
  const LibraryProduct& library_;
  HugeBuffer packed_;
};

}  // namespace

std::unique_ptr<MatmulBackend> PackOneDnn(const float* weights, int64_t out_features,
                                          int64_t in_features) {
  const auto* library = LibraryProduct::For({LibraryTypes::kF32, out_features, in_features});
  if (library == nullptr) return nullptr;
  return std::make_unique<OneDnnMatrix>(*library, weights, out_features, in_features);
}

}  // namespace fermata
