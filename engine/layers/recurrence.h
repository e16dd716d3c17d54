#ifndef FERMATA_ENGINE_LAYERS_RECURRENCE_H_
#define FERMATA_ENGINE_LAYERS_RECURRENCE_H_

#include <atomic>
#include <cstdint>
#include <span>

#include "engine/base/parallel.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/form.h"
#include "engine/layers/sequence.h"

namespace fermata {

// An element of the state is read and written for one product with k and one with q: as long as
// that takes for this many multiply-adds from the cache.
inline constexpr int64_t kStateWork = 8;

// What RunHeads spreads over threads.
struct HeadWork {
  int64_t num_heads = 0;
  int64_t state_floats = 0;  // Of one head: key_dim · value_dim.
  int64_t rows = 0;          // Of the whole batch.
};

// Runs the recurrence of every head of every sequence. `make_run(sequence, head)` gives the DecayRun
// or DeltaRun of one of them. Returns how many denominators were clamped.
template <typename MakeRun>
int64_t RunHeads(std::span<const SequenceRows> sequences, const HeadWork& work, Form form,
                 const MakeRun& make_run) {
  // Heads go outermost, so that every thread gets its share of a long sequence.
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  std::atomic<int64_t> clamps = 0;
  ParallelFor(
      work.num_heads * num_sequences, kStateWork * work.state_floats * work.rows / num_sequences,
      [&](int64_t begin, int64_t end) {
        int64_t clamped = 0;
        for (int64_t pair = begin; pair < end; ++pair) {
          const SequenceRows& sequence = sequences[pair % num_sequences];
          clamped += Compute(make_run(sequence, pair / num_sequences), sequence.position, form);
        }
        clamps += clamped;
      });
  return clamps;
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_RECURRENCE_H_
