#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "dnnl.hpp"
#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/base/philox.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul_backend.h"

namespace fermata {
namespace {

using Type = dnnl::memory::data_type;
using Layout = dnnl::memory::format_tag;

// More rows are multiplied in blocks of these, which bounds the primitives of a shape.
constexpr int64_t kMaxRows = 256;

// Never destroyed: other static objects may multiply until the process ends.
dnnl::engine& Cpu() {
  static auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& ThreadStream() {
  thread_local dnnl::stream stream(Cpu());
  return stream;
}

// Room for what a primitive needs while it runs. A primitive with a scratchpad of its own may not
// run on two threads at once.
void* ThreadScratchpad(size_t bytes) {
  thread_local AlignedBuffer<std::byte> scratchpad;
  if (scratchpad.size() < bytes) scratchpad = AlignedBuffer<std::byte>(bytes);
  return scratchpad.data();
}

// All that the matrices of one shape share: how weights are packed, and a primitive for each number
// of rows and threads, made when first wanted.
class Shape {
 public:
  Shape(int64_t out_features, int64_t in_features)
      : out_features_(out_features), in_features_(in_features) {
    const auto description = Describe(64, {{in_features, out_features}, Type::f32, Layout::any});
    packed_ = description.weights_desc();
    row_invariant_ = HasBlockedKernel(description) && RowsAreInvariant();
  }

  bool row_invariant() const { return row_invariant_; }
  size_t packed_bytes() const { return packed_.get_size(); }

  // Packs weights [out_features, in_features].
  void Pack(const float* weights, void* packed) const {
    // The transpose of W, as the library multiplies from the right.
    const dnnl::memory::desc plain({in_features_, out_features_}, Type::f32, Layout::ba);
    dnnl::memory from(plain, Cpu(), const_cast<float*>(weights));
    dnnl::memory to(packed_, Cpu(), packed);
    dnnl::reorder(from, to).execute(ThreadStream(), from, to);
    ThreadStream().wait();
  }

  // rows ≤ kMaxRows.
  void Multiply(const float* x, int64_t rows, const void* packed, float* y) const {
    const int threads = ThreadsFor(MatmulWork(out_features_, in_features_, rows));
    UseOpenMpThreads(threads);
    const Product& product = ProductFor(rows, threads);
    const auto& description = product.description;
    const dnnl::memory::desc scratchpad = description.scratchpad_desc();
    dnnl::primitive(product.primitive)
        .execute(
            ThreadStream(),
            {{DNNL_ARG_SRC, {description.src_desc(), Cpu(), const_cast<float*>(x)}},
             {DNNL_ARG_WEIGHTS, {packed_, Cpu(), const_cast<void*>(packed)}},
             {DNNL_ARG_DST, {description.dst_desc(), Cpu(), y}},
             {DNNL_ARG_SCRATCHPAD, {scratchpad, Cpu(), ThreadScratchpad(scratchpad.get_size())}}});
    ThreadStream().wait();
  }

 private:
  using Description = dnnl::matmul::primitive_desc;

  struct Product {
    Description description;
    dnnl::matmul primitive;
  };

  Description Describe(int64_t rows, const dnnl::memory::desc& weights) const {
    const dnnl::memory::desc source({rows, in_features_}, Type::f32, Layout::ab);
    const dnnl::memory::desc result({rows, out_features_}, Type::f32, Layout::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return Description(dnnl::matmul::desc(source, weights, result), attributes, Cpu());
  }

  // The library's blocked kernels do not split a sum by the number of rows; its calls to a general
  // matrix product do.
  static bool HasBlockedKernel(const Description& description) {
    return std::string_view(description.impl_info_str()).starts_with("brg");
  }

  // For the number of threads that the calling thread has set, which the library notes for good.
  const Product& ProductFor(int64_t rows, int threads) const {
    const std::lock_guard lock(mutex_);
    const auto [it, made] = products_.try_emplace({rows, threads});
    if (made) {
      it->second.description = Describe(rows, packed_);
      it->second.primitive = dnnl::matmul(it->second.description);
    }
    return it->second;
  }

  // The library does not document what HasBlockedKernel relies on, so it is tried out too.
  bool RowsAreInvariant() const {
    std::vector<float> weights(out_features_ * in_features_);
    std::vector<float> x(kMaxRows * in_features_);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = Noise(0, i);
    for (size_t i = 0; i < x.size(); ++i) x[i] = Noise(1, i);
    const HugeBuffer packed(packed_bytes());
    Pack(weights.data(), packed.data());
    std::vector<float> together(kMaxRows * out_features_);
    std::vector<float> some(kMaxRows * out_features_);
    Multiply(x.data(), kMaxRows, packed.data(), together.data());
    for (const int64_t rows : {1, 2, 3, 7, 16, 33, 64, 128}) {
      if (!HasBlockedKernel(Describe(rows, packed_))) return false;
      Multiply(x.data(), rows, packed.data(), some.data());
      const size_t bytes = rows * out_features_ * sizeof(float);
      if (std::memcmp(some.data(), together.data(), bytes) != 0) return false;
    }
    return true;
  }

  // Bits of every magnitude's low end matter here, not the distribution.
  static float Noise(uint64_t key, uint64_t i) {
    return static_cast<float>(Philox(key, i, 0)[0]) * 0x1p-31f - 1.0f;
  }

  int64_t out_features_;
  int64_t in_features_;
  dnnl::memory::desc packed_;
  bool row_invariant_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int64_t, int>, Product> products_;  // By rows and threads.
};

// The one Shape of these sizes, kept for the life of the process.
const Shape& ShapeFor(int64_t out_features, int64_t in_features) {
  static auto& mutex = *new std::mutex;
  static auto& shapes = *new std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Shape>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Shape>& shape = shapes[{out_features, in_features}];
  if (shape == nullptr) shape = std::make_unique<Shape>(out_features, in_features);
  return *shape;
}

class OneDnnMatrix : public MatmulBackend {
 public:
  OneDnnMatrix(const Shape& shape, const float* weights, int64_t out_features, int64_t in_features)
      : shape_(shape),
        out_features_(out_features),
        in_features_(in_features),
        packed_(shape.packed_bytes()) {
    shape_.Pack(weights, packed_.data());
  }

  void Multiply(const float* x, int64_t rows, float* y) const override {
    try {
      for (int64_t row = 0; row < rows; row += kMaxRows) {
        shape_.Multiply(x + row * in_features_, std::min(kMaxRows, rows - row), packed_.data(),
                        y + row * out_features_);
      }
    } catch (const dnnl::error& error) {
      // Sizes were accepted when the matrix was packed: what is left is memory running out.
      std::fprintf(stderr, "matrix product failed: %s\n", error.what());
      std::abort();
    }
  }

  int64_t bytes() const override { return static_cast<int64_t>(packed_.bytes()); }

 private:
  const Shape& shape_;
  int64_t out_features_;
  int64_t in_features_;
  HugeBuffer packed_;
};

}  // namespace

std::unique_ptr<MatmulBackend> PackOneDnn(const float* weights, int64_t out_features,
                                          int64_t in_features) {
  if (out_features == 0 || in_features == 0) return nullptr;
  try {
    const Shape& shape = ShapeFor(out_features, in_features);
    if (!shape.row_invariant()) return nullptr;
    return std::make_unique<OneDnnMatrix>(shape, weights, out_features, in_features);
  } catch (const dnnl::error&) {
    return nullptr;  // A processor or shape that the library has no product for.
  }
}

}  // namespace fermata
