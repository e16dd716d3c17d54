#ifndef FERMATA_ENGINE_KERNELS_MATMUL_DISPATCH_H_
#define FERMATA_ENGINE_KERNELS_MATMUL_DISPATCH_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "engine/base/weights.h"

namespace fermata {

// Whether a product is oneDNN's or our own, by the type of the weights, the kind of processor and
// the number of rows.

// What a processor multiplies matrices with, as far as oneDNN may use it (ONEDNN_MAX_CPU_ISA).
enum class ProcessorClass {
  kAvx2,    // Or less.
  kAvx512,  // Without dot products of bytes.
  kVnni,    // AVX-512 with them.
  kTiles,   // AMX.
};

inline constexpr std::pair<ProcessorClass, std::string_view> kProcessorClassNames[] = {
    {ProcessorClass::kAvx2, "kAvx2"},
    {ProcessorClass::kAvx512, "kAvx512"},
    {ProcessorClass::kVnni, "kVnni"},
    {ProcessorClass::kTiles, "kTiles"}};

ProcessorClass ThisProcessorClass();

// Our own kernel multiplies up to so many rows, and oneDNN more, where it has a kernel that keeps
// the promises of PackedMatrix.
inline constexpr int64_t kNoRows = 0;
inline constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

struct DispatchRow {
  WeightType type;
  ProcessorClass processor;
  int64_t own_rows;
};

// Each type and class once, by type, then by class. The two add floats in different orders, so for
// kF32 and kBf16 there are all rows or none; sums of kInt8 are exact, whoever adds them. oneDNN has
// no product of kInt4.
std::span<const DispatchRow> DispatchTable();

// The table's, for this processor.
int64_t OwnRows(WeightType type);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_MATMUL_DISPATCH_H_
