#ifndef FERMATA_ENGINE_BASE_PHILOX_H_
#define FERMATA_ENGINE_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace fermata {

// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): four
// random words that are a pure function of a key and a counter. There is no generator state to
// keep, share or restore: a draw is named by what it is for.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// A double in [0, 1) with 53 random bits, from the draw that (key, counter) names.
double PhiloxUniform(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// A standard normal (Box-Muller), from the draw that (key, counter) names.
double PhiloxNormal(uint64_t key, uint64_t counter_low, uint64_t counter_high);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_PHILOX_H_
