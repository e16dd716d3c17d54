#ifndef FERMATA_ENGINE_BASE_PARALLEL_H_
#define FERMATA_ENGINE_BASE_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace fermata {

// How many threads compute, decided here for ParallelFor and the matrix library alike (which has
// threads of its own, OpenMP's). Work is counted in multiply-adds that find their operands in the
// cache.

// With less work than this for each thread, one thread is faster: about 5 µs.
inline constexpr int64_t kMinThreadWork = int64_t{1} << 18;

// Sets the number of threads that there may be, at least 1 (the default is the number of cores), and
// how much work each must have. Call before the first forward pass.
void SetComputeThreads(int threads, int64_t min_thread_work = kMinThreadWork);
int ComputeThreads();

// The threads that so much work is worth: from 1 to ComputeThreads().
int ThreadsFor(int64_t work);

// The same for OpenMP's threads: waking one and waiting for it took about 45 µs.
int OpenMpThreadsFor(int64_t work);

// Makes a library that runs OpenMP by itself use `threads` threads when the calling thread calls it.
// Cheap when nothing has changed.
void UseOpenMpThreads(int threads);

// Calls `body(begin, end)` on disjoint ranges that cover [0, count), on as many threads as `count`
// times `work` is worth, and returns when all are done. How the range is cut depends on the number of
// threads, so `body` must compute each index by itself for results to be reproducible.
void ParallelFor(int64_t count, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_PARALLEL_H_
