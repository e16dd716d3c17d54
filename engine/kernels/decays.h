#ifndef FERMATA_ENGINE_KERNELS_DECAYS_H_
#define FERMATA_ENGINE_KERNELS_DECAYS_H_

#include <cstdint>

namespace fermata {

// w_t of a run: see DecayRun.
struct Decays {
  const float* values = nullptr;  // Null: 1.
  int64_t stride = 0;
  bool per_channel = false;

  // Of the run's token t.
  const float* At(int64_t t) const { return values + t * stride; }
};

// Of a DecayRun or a DeltaRun.
template <class Run>
Decays DecaysOf(const Run& run) {
  if (run.decay == nullptr) return {};
  return {.values = run.decay, .stride = run.decay_stride, .per_channel = run.decay_per_channel};
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_DECAYS_H_
