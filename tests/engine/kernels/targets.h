#ifndef FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_
#define FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "hwy/highway.h"

namespace fermata {

// Calls `body(name of the instruction set)` once for each that the kernels are compiled for and
// this machine has, with the kernels held to it.
template <typename Body>
void ForEachTarget(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Whether the instruction set multiplies and adds in one rounding: AVX2 and later. Results of those
// that do agree to the bit.
inline bool HasFusedMultiplyAdd(std::string_view target) { return target.starts_with("AVX"); }

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_KERNELS_TARGETS_H_
