// What a product of the kinds that models have costs, by type of weights, kernel and number of rows.
// The weights come from memory, not from a cache: a product takes the next of as many copies as are
// larger than any. GB/s counts their bytes alone. OMP_NUM_THREADS=1 asks one core.
//
//   matmul_bench --benchmark_filter='int8.*/out:768/in:3072/'
//
// The rows of engine/kernels/matmul_dispatch.inc for this class of processor, or for a lesser one, to
// which ONEDNN_MAX_CPU_ISA=AVX2 or AVX512_CORE holds the library, and our kernels with it. Standard
// error has what they follow from. One core is asked:
//
//   matmul_bench --dispatch_table

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/parallel.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"

// Before Highway is included: the narrow types have kernels for this target as well.
#define HWY_WANT_AVX3_DL
#include "tests/engine/kernels/targets.h"

namespace fermata {
namespace {

constexpr int64_t kBytes = int64_t{128} << 20;
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
     [](const float* w, int64_t out, int64_t in) { return PackBf16OneDnn(w, out, in); }},
    {"int8/lines",
     [](const float* w, int64_t out, int64_t in) { return PackInt8(w, out, in, kAllRows); }},
    {"int8/library",
     [](const float* w, int64_t out, int64_t in) {
       Packed packed = PackInt8(w, out, in, kNoRows);
       return packed->WayFor(1) == MatmulBackend::Way::kPieces ? nullptr : std::move(packed);
     }},
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

// The two that the table chooses between. oneDNN has no product of the fourth type.
struct Rivals {
  WeightType type;
  const Kernel* own;
  const Kernel* library;
};
constexpr Rivals kRivals[] = {{WeightType::kF32, &kKernels[0], &kKernels[1]},
                              {WeightType::kBf16, &kKernels[2], &kKernels[3]},
                              {WeightType::kInt8, &kKernels[4], &kKernels[5]}};
constexpr int64_t kTableRows[] = {1, 2, 4, 6, 8, 12, 16, 32, 64, 128, 256};
constexpr double kWorthwhile = 1.03;

// The seconds of one product, the median of several of some milliseconds; 0 where there is none.
double Seconds(const Kernel& kernel, const Shape& shape, int64_t rows) {
  const std::vector<Packed>& copies = Copies(kernel, shape);
  if (copies.empty()) return 0;
  const auto x = Normals(rows * shape.in_features);
  std::vector<float> y(rows * shape.out_features);
  std::vector<double> times;
  size_t next = 0;
  for (int sample = 0; sample < 5; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    double seconds = 0;
    int64_t count = 0;
    while (seconds < 4e-3) {
      copies[next]->Multiply(x.data(), rows, y.data());
      next = (next + 1) % copies.size();
      ++count;
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    times.push_back(seconds / static_cast<double>(count));
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

// How many times as long as ours the library takes, for each of kTableRows: the geometric mean over
// shapes. Infinite where it has no product.
std::vector<double> Ratios(const Rivals& rivals) {
  constexpr Shape kTableShapes[] = {{768, 768}, {3072, 768}, {768, 3072}};
  std::vector<double> logs(std::size(kTableRows));
  for (const Shape& shape : kTableShapes) {
    std::vector<double> own;
    for (const int64_t rows : kTableRows) own.push_back(Seconds(*rivals.own, shape, rows));
    for (size_t i = 0; i < own.size(); ++i) {
      const double library = Seconds(*rivals.library, shape, kTableRows[i]);
      logs[i] += library == 0 ? INFINITY : std::log(library / own[i]) / std::size(kTableShapes);
    }
  }
  for (double& ratio : logs) ratio = std::exp(ratio);
  return logs;
}

int64_t BestOwnRows(WeightType type, const std::vector<double>& ratios) {
  if (type != WeightType::kInt8) {
    // All or none: over all numbers of rows alike.
    double sum = 0;
    for (const double ratio : ratios) sum += std::log(ratio);
    return sum < 0 ? kNoRows : kAllRows;
  }
  size_t own = ratios.size();
  while (own > 0 && ratios[own - 1] * kWorthwhile < 1) --own;
  if (own == ratios.size()) return kAllRows;
  return own == 0 ? kNoRows : kTableRows[own - 1];
}

void PrintDispatchRow(std::string_view type, int64_t rows) {
  const auto processor = kProcessorClassNames[static_cast<int>(ThisProcessorClass())].second;
  const std::string count = rows == kAllRows  ? "kAllRows"
                            : rows == kNoRows ? "kNoRows"
                                              : std::to_string(rows);
  std::printf("{WeightType::%s, ProcessorClass::%s, %s},\n", std::string(type).c_str(),
              std::string(processor).c_str(), count.c_str());
}

void PrintDispatchTable() {
  HoldTargetsToClass();
  SetComputeThreads(1);
  std::fprintf(stderr, "library's time / ours, rows:");
  for (const int64_t rows : kTableRows) std::fprintf(stderr, " %ld", static_cast<long>(rows));
  constexpr std::string_view kNames[] = {"kF32", "kBf16", "kInt8"};
  for (size_t i = 0; i < std::size(kRivals); ++i) {
    const std::vector<double> ratios = Ratios(kRivals[i]);
    std::fprintf(stderr, "\n%s:", std::string(kNames[i]).c_str());
    for (const double ratio : ratios) std::fprintf(stderr, " %.2f", ratio);
    std::fprintf(stderr, "\n");
    PrintDispatchRow(kNames[i], BestOwnRows(kRivals[i].type, ratios));
  }
  PrintDispatchRow("kInt4", kAllRows);
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--dispatch_table") {
    fermata::PrintDispatchTable();
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  fermata::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
