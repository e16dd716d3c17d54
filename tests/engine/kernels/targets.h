#ifndef FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_
#define FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/kernels/matmul_dispatch.h"
#include "hwy/highway.h"

namespace fermata {

// The instruction sets that processors of this one's class have, by which ONEDNN_MAX_CPU_ISA takes
// some from our kernels too.
inline int64_t TargetsOfClass() {
  // Better ones have lower bits, all of them below the worst that is wanted here.
  switch (ThisProcessorClass()) {
    case ProcessorClass::kAvx2:
      return ~(int64_t{HWY_AVX2} - 1);
    case ProcessorClass::kAvx512:
      return ~(int64_t{HWY_AVX3} - 1);
    case ProcessorClass::kVnni:
    case ProcessorClass::kTiles:
      return ~int64_t{0};
  }
  return 0;
}

// Holds the kernels to them.
inline void HoldTargetsToClass() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & TargetsOfClass());
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Calls `body(name of the instruction set)` once for each that the kernels are compiled for and
// this machine has, with the kernels held to it.
template <typename Body>
void ForEachTarget(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if ((target & TargetsOfClass()) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  HoldTargetsToClass();
}

// Whether the instruction set multiplies and adds in one rounding: AVX2 and later. Results of those
// that do agree to the bit.
inline bool HasFusedMultiplyAdd(std::string_view target) { return target.starts_with("AVX"); }

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_
