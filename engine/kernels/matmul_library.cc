#include "engine/kernels/matmul_library.h"

#include <bit>
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

// As many as MatmulBackend multiplies at once; with fewer its rows are compared.
constexpr int64_t kMaxRows = 256;

struct Types {
  Type x;
  Type weights;
  Type y;
  Layout packed;
};

// The explicit layouts are those of matmul_lines.h.
Types TypesOf(LibraryTypes types) {
  switch (types) {
    case LibraryTypes::kF32:
      return {Type::f32, Type::f32, Type::f32, Layout::any};
    case LibraryTypes::kBf16:
      return {Type::bf16, Type::bf16, Type::f32, Layout::BA16a64b2a};
    case LibraryTypes::kInt8:
      return {Type::u8, Type::s8, Type::s32, Layout::BA16a64b4a};
  }
  std::abort();
}

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

class OneDnnProduct : public LibraryProduct {
 public:
  explicit OneDnnProduct(const LibraryShape& shape) : shape_(shape), types_(TypesOf(shape.types)) {
    const Description description =
        Describe(64, {{shape.in_features, shape.out_features}, types_.weights, types_.packed});
    packed_ = description.weights_desc();
    row_invariant_ = HasBlockedKernel(description) && RowsAreInvariant();
  }

  bool row_invariant() const { return row_invariant_; }
  size_t packed_bytes() const override { return packed_.get_size(); }

  void Pack(const float* weights, void* packed) const override {
    // The transpose of W, as the library multiplies from the right.
    const dnnl::memory::desc plain({shape_.in_features, shape_.out_features}, Type::f32,
                                   Layout::ba);
    dnnl::memory from(plain, Cpu(), const_cast<float*>(weights));
    dnnl::memory to(packed_, Cpu(), packed);
    dnnl::reorder(from, to).execute(ThreadStream(), from, to);
    ThreadStream().wait();
  }

  void Multiply(const void* x, int64_t rows, const void* packed, void* y) const override {
    try {
      Execute(x, rows, packed, y);
    } catch (const dnnl::error& error) {
      // Sizes were accepted when the shape was made: what is left is memory running out.
      std::fprintf(stderr, "matrix product failed: %s\n", error.what());
      std::abort();
    }
  }

 private:
  using Description = dnnl::matmul::primitive_desc;

  struct Primitive {
    Description description;
    dnnl::matmul primitive;
  };

  void Execute(const void* x, int64_t rows, const void* packed, void* y) const {
    const int threads = OpenMpThreadsFor(MatmulWork(shape_.out_features, shape_.in_features, rows));
    UseOpenMpThreads(threads);
    const Primitive& product = PrimitiveFor(rows, threads);
    const Description& description = product.description;
    const dnnl::memory::desc scratchpad = description.scratchpad_desc();
    dnnl::primitive(product.primitive)
        .execute(
            ThreadStream(),
            {{DNNL_ARG_SRC, {description.src_desc(), Cpu(), const_cast<void*>(x)}},
             {DNNL_ARG_WEIGHTS, {packed_, Cpu(), const_cast<void*>(packed)}},
             {DNNL_ARG_DST, {description.dst_desc(), Cpu(), y}},
             {DNNL_ARG_SCRATCHPAD, {scratchpad, Cpu(), ThreadScratchpad(scratchpad.get_size())}}});
    ThreadStream().wait();
  }

  Description Describe(int64_t rows, const dnnl::memory::desc& weights) const {
    const dnnl::memory::desc x({rows, shape_.in_features}, types_.x, Layout::ab);
    const dnnl::memory::desc y({rows, shape_.out_features}, types_.y, Layout::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return Description(dnnl::matmul::desc(x, weights, y), attributes, Cpu());
  }

  static std::string_view Name(const Description& description) {
    return description.impl_info_str();
  }

  // The library's blocked kernels do not split a sum by the number of rows; its calls to a general
  // matrix product do. Without VNNI or tiles its sums of int8 products saturate.
  bool HasBlockedKernel(const Description& description) const {
    const std::string_view name = Name(description);
    const bool exact = shape_.types != LibraryTypes::kInt8 || name.find("vnni") != name.npos ||
                       name.find("amx") != name.npos;
    return name.starts_with("brg") && exact;
  }

  // For the number of threads that the calling thread has set, which the library notes for good.
  const Primitive& PrimitiveFor(int64_t rows, int threads) const {
    const std::lock_guard lock(mutex_);
    const auto [it, made] = primitives_.try_emplace({rows, threads});
    if (made) {
      it->second.description = Describe(rows, packed_);
      it->second.primitive = dnnl::matmul(it->second.description);
    }
    return it->second;
  }

  bool RowsAreInvariant() const {
    // Sums of integers are exact whatever their order.
    if (shape_.types == LibraryTypes::kInt8) return true;
    const HugeBuffer weights(packed_bytes());
    FillWithNoise(weights);
    const HugeBuffer x(kMaxRows * shape_.in_features * dnnl::memory::data_type_size(types_.x));
    FillWithNoise(x);
    std::vector<float> together(kMaxRows * shape_.out_features);
    std::vector<float> some(kMaxRows * shape_.out_features);
    Multiply(x.data(), kMaxRows, weights.data(), together.data());
    for (const int64_t rows : {1, 2, 3, 7, 16, 33, 64, 128}) {
      if (!HasBlockedKernel(Describe(rows, packed_))) return false;
      Multiply(x.data(), rows, weights.data(), some.data());
      const size_t bytes = rows * shape_.out_features * sizeof(float);
      if (std::memcmp(some.data(), together.data(), bytes) != 0) return false;
    }
    return true;
  }

  // Bits of every magnitude's low end matter here, not the distribution, nor that they repeat.
  void FillWithNoise(const HugeBuffer& buffer) const {
    constexpr size_t kPeriod = 65521;
    std::vector<float> noise(kPeriod);
    for (size_t i = 0; i < kPeriod; ++i) {
      noise[i] = static_cast<float>(Philox(0, i, 0)[0]) * 0x1p-31f - 1.0f;
    }
    if (types_.x == Type::f32) {
      const size_t count = buffer.bytes() / sizeof(float);
      for (size_t i = 0; i < count; ++i) buffer.floats()[i] = noise[i % kPeriod];
      return;
    }
    auto* halves = static_cast<uint16_t*>(buffer.data());
    const size_t count = buffer.bytes() / sizeof(uint16_t);
    for (size_t i = 0; i < count; ++i) {
      halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(noise[i % kPeriod]) >> 16);
    }
  }

  LibraryShape shape_;
  Types types_;
  dnnl::memory::desc packed_;
  bool row_invariant_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int64_t, int>, Primitive> primitives_;  // By rows and threads.
};

std::unique_ptr<OneDnnProduct> TryProduct(const LibraryShape& shape) {
  if (shape.out_features == 0 || shape.in_features == 0) return nullptr;
  try {
    auto product = std::make_unique<OneDnnProduct>(shape);
    return product->row_invariant() ? std::move(product) : nullptr;
  } catch (const dnnl::error&) {
    return nullptr;  // A processor or shape that the library has no product for.
  }
}

}  // namespace

ProcessorClass LibraryProcessorClass() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_amx:
      return ProcessorClass::kTiles;
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_vnni:
      return ProcessorClass::kVnni;
    case dnnl::cpu_isa::avx512_core:
      return ProcessorClass::kAvx512;
    default:
      return ProcessorClass::kAvx2;
  }
}

const LibraryProduct* LibraryProduct::For(const LibraryShape& shape) {
  static auto& mutex = *new std::mutex;
  static auto& products = *new std::map<LibraryShape, std::unique_ptr<OneDnnProduct>>;
  const std::lock_guard lock(mutex);
  const auto [it, made] = products.try_emplace(shape);
  if (made) it->second = TryProduct(shape);
  return it->second.get();
}

}  // namespace fermata
