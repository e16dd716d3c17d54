#include <algorithm>

#include "engine/base/parallel.h"

namespace fermata {

void ParallelFor(int64_t count, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const int ranges = static_cast<int>(std::min<int64_t>(ThreadsFor(count * work), count));
  if (ranges == 1) {
    body(0, count);
    return;
  }
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
  for (int range = 0; range < ranges; ++range) {
    body(count * range / ranges, count * (range + 1) / ranges);
  }
}

}  // namespace fermata
