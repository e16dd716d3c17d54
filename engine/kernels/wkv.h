#ifndef FERMATA_ENGINE_KERNELS_WKV_H_
#define FERMATA_ENGINE_KERNELS_WKV_H_

#include <cstdint>

#include "engine/kernels/form.h"

namespace fermata {

// The time mix of RWKV-4 (Peng et al. 2023, eqs. 16 and 19-25) of one sequence over a run of tokens,
// each channel for itself:
//
//   o_t = (Σ_{s<t} e^{(t-1-s) w + k_s} v_s + e^{u + k_t} v_t) / (the same without v)
//
// Both sums are kept divided by e^max, with the running maximum beside them, so that keys of any
// size stay finite. Channels are independent: any range of them is a run of its own.
struct WkvRun {
  int64_t count = 0;  // Tokens.
  int64_t dim = 0;    // Channels.

  // Rows [dim] of one token each, `*_stride` floats apart. o must not overlap the others.
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  float* o = nullptr;
  int64_t o_stride = 0;

  const float* log_decay = nullptr;  // w [dim], ≤ 0: -e^time_decay of the checkpoint.
  const float* bonus = nullptr;      // u [dim]: time_first of the checkpoint.

  // The state before the run, which becomes the state after it, [dim] each: ChatRWKV's aa, bb and
  // pp. den is at least 1 once a token was seen; a channel whose den is 0 is empty, whatever num and
  // max say, so that a zeroed state is that of position 0 (where ChatRWKV has a max of -1e38).
  float* num = nullptr;
  float* den = nullptr;
  float* max = nullptr;
};

// The run in the form asked for. `position` is that of the run's first token; only the chunkwise
// form, which works in chunks of kChunkTokens, looks at it.
void Compute(const WkvRun& run, int64_t position, Form form);

// The three forms.

// Token after token. A token's bits are the same in a run of any length.
void WkvRecurrent(const WkvRun& run);

// Chunks that end where the position is a multiple of `chunk`: each sums up its own tokens, and the
// sums combine.
void WkvChunkwise(const WkvRun& run, int64_t position, int64_t chunk);

// Every token looks at all before it, in time quadratic in the length of the run.
void WkvParallel(const WkvRun& run);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_WKV_H_
