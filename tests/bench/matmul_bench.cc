// What a product of the kinds that models have costs, by type of weights, kernel and number of rows.
// The weights come from memory, not from a cache: a product takes the next of as many copies as are
// larger than any. GB/s counts their bytes alone. OMP_NUM_THREADS=1 asks one core.
//
//   matmul_bench --benchmark_filter='int8.*/out:768/in:3072/'

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/kernels/matmul_backend.h"

namespace fermata {
namespace {

constexpr int64_t kBytes = int64_t{256} << 20;
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 64, 256};

struct Shape {
  int64_t out_features;
  int64_t in_features;
};
constexpr Shape kShapes[] = {{768, 768}, {3072, 768}, {768, 3072}, {2048, 2048}, {65536, 768}};

std::vector<float> Normals(int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

using Packed = std::unique_ptr<MatmulBackend>;

struct Kernel {
  const char* name;
  Packed (*pack)(const float* weights, int64_t out, int64_t in);
};

Packed PackZeroBlocks(BlockType type, int64_t out, int64_t in, int64_t block_bytes) {
  const std::vector<std::byte> bytes(out * in / 32 * block_bytes);
  return PackBlocks({type, bytes}, out, in);
}

constexpr Kernel kKernels[] = {
    {"f32/panels", &PackPanels},
    {"f32/library", &PackOneDnn},
    {"bf16/lines",
     [](const float* w, int64_t out, int64_t in) { return PackBf16Lines(w, out, in); }},
    {"bf16/library",
     [](const float* w, int64_t out, int64_t in) { return PackBf16OneDnn(w, out, in, true); }},
    {"int8/lines",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kNeverRows); }},
    {"int8/library",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, 1); }},
    {"int8/chosen", [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in); }},
    {"q8_0/lines", [](const float*, int64_t out,
                      int64_t in) { return PackZeroBlocks(BlockType::kQ8_0, out, in, 34); }},
    {"int4/lines", &PackInt4},
};

// The copies last made, which serve all numbers of rows.
const std::vector<Packed>& Copies(const Kernel& kernel, const Shape& shape) {
  static std::vector<Packed> copies;
  static std::string made;
  std::string name =
      kernel.name + std::to_string(shape.out_features) + "x" + std::to_string(shape.in_features);
  if (name == made) return copies;
  made = std::move(name);
  copies.clear();
  const auto weights = Normals(shape.out_features * shape.in_features);
  int64_t bytes = 0;
  while (bytes < kBytes) {
    Packed packed = kernel.pack(weights.data(), shape.out_features, shape.in_features);
    if (packed == nullptr) break;
    bytes += packed->bytes();
    copies.push_back(std::move(packed));
  }
  return copies;
}

void Multiply(benchmark::State& bench, const Kernel& kernel, const Shape& shape, int64_t rows) {
  const std::vector<Packed>& copies = Copies(kernel, shape);
  if (copies.empty()) {
    bench.SkipWithError("the kernel declines here");
    return;
  }
  const auto x = Normals(rows * shape.in_features);
  std::vector<float> y(rows * shape.out_features);
  size_t next = 0;
  for (auto _ : bench) {
    copies[next]->Multiply(x.data(), rows, y.data());
    benchmark::DoNotOptimize(y.data());
    next = (next + 1) % copies.size();
  }
  const auto per_second = [&](int64_t count) {
    return benchmark::Counter(static_cast<double>(count) * 1e-9,
                              benchmark::Counter::kIsIterationInvariantRate);
  };
  bench.counters["GB/s"] = per_second(copies[0]->bytes());
  bench.counters["GFLOP/s"] = per_second(2 * rows * shape.out_features * shape.in_features);
}

void RegisterAll() {
  for (const Shape& shape : kShapes) {
    for (const Kernel& kernel : kKernels) {
      for (const int64_t rows : kRows) {
        const std::string name =
            std::string(kernel.name) + "/out:" + std::to_string(shape.out_features) +
            "/in:" + std::to_string(shape.in_features) + "/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(), [&kernel, &shape, rows](auto& bench) {
          Multiply(bench, kernel, shape, rows);
        })->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  fermata::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
