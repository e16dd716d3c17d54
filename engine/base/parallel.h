#ifndef FERMATA_ENGINE_BASE_PARALLEL_H_
#define FERMATA_ENGINE_BASE_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace fermata {

// Sets how many threads ParallelFor and the matrix library use (they share one pool). At least 1;
// the default is the number of cores. Call before the first forward pass.
void SetComputeThreads(int threads);
int ComputeThreads();

// Makes a library that runs OpenMP by itself use ComputeThreads() threads when the calling thread
// calls it. Cheap when nothing has changed.
void ApplyComputeThreads();

// Calls `body(begin, end)` on disjoint ranges that cover [0, count), on up to ComputeThreads()
// threads, and returns when all are done. How the range is cut depends on the thread count, so
// `body` must compute each index by itself for results to be reproducible. Ranges hold at least
// `grain` indices, so that little work stays on the calling thread.
void ParallelFor(int64_t count, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_PARALLEL_H_
