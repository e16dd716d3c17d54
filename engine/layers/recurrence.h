#ifndef FERMATA_ENGINE_LAYERS_RECURRENCE_H_
#define FERMATA_ENGINE_LAYERS_RECURRENCE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "engine/base/parallel.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/form.h"
#include "engine/layers/heads.h"
#include "engine/layers/part_clock.h"
#include "engine/layers/sequence.h"

namespace fermata {

// Of all rows of a batch: q and o [rows, num_heads, dim], k and v [rows, num_kv_heads, dim].
struct HeadRows {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* o = nullptr;
};

// The DecayRun or DeltaRun of one head of one sequence, with q, k, v, o and S, which the sequence's
// state has at `S_offset` as [num_heads, key_dim, value_dim].
template <typename Run>
Run MakeRun(const SequenceRows& sequence, int64_t head, const HeadSizes& sizes,
            const HeadRows& rows, int64_t S_offset) {
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = sizes;
  Run run{.count = sequence.count, .key_dim = key_dim, .value_dim = value_dim};
  run.q_stride = num_heads * key_dim;
  run.k_stride = num_kv_heads * key_dim;
  run.v_stride = num_kv_heads * value_dim;
  run.o_stride = num_heads * value_dim;
  const int64_t kv_head = sizes.kv_head(head);
  run.q = rows.q + sequence.begin * run.q_stride + head * key_dim;
  run.k = rows.k + sequence.begin * run.k_stride + kv_head * key_dim;
  run.v = rows.v + sequence.begin * run.v_stride + kv_head * value_dim;
  run.o = rows.o + sequence.begin * run.o_stride + head * value_dim;
  run.S = sequence.state + S_offset + head * key_dim * value_dim;
  return run;
}

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
  const auto run = [&] {
    ParallelFor(work.num_heads * num_sequences,
                kStateWork * work.state_floats * work.rows / num_sequences,
                [&](int64_t begin, int64_t end) {
                  int64_t clamped = 0;
                  const auto run_of = [&](int64_t pair) {
                    return make_run(sequences[pair % num_sequences], pair / num_sequences);
                  };
                  auto run = run_of(begin);
                  for (int64_t pair = begin; pair < end; ++pair) {
                    const auto next = run_of(std::min(pair + 1, end - 1));
                    run.next_S = next.S;
                    clamped += Compute(run, sequences[pair % num_sequences].position, form);
                    run = next;
                  }
                  clamps += clamped;
                });
  };
  if (PartClock* clock = PartClock::Current()) {
    const int64_t states = num_sequences * work.num_heads * work.state_floats;
    clock->Time("recurrence",
                {.bytes = 2 * states * static_cast<int64_t>(sizeof(float)),
                 .multiply_adds = 2 * work.rows * work.num_heads * work.state_floats},
                run);
  } else {
    run();
  }
  return clamps;
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_RECURRENCE_H_
