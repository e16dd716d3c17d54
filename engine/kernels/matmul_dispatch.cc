#include "engine/kernels/matmul_dispatch.h"

#include <algorithm>

#include "engine/kernels/matmul_library.h"

namespace fermata {
namespace {

constexpr DispatchRow kTable[] = {
#include "engine/kernels/matmul_dispatch.inc"
};

}  // namespace

std::span<const DispatchRow> DispatchTable() { return kTable; }

ProcessorClass ThisProcessorClass() {
  static const ProcessorClass processor = LibraryProcessorClass();
  return processor;
}

int64_t OwnRows(WeightType type) {
  const ProcessorClass processor = ThisProcessorClass();
  return std::ranges::find_if(
             kTable,
             [&](const DispatchRow& row) { return row.type == type && row.processor == processor; })
      ->own_rows;
}

}  // namespace fermata
