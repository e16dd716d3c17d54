// ParallelFor for the thread sanitizer, which can not see how OpenMP's threads wait for one another:
// threads of its own, made anew for each call.

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/base/parallel.h"

namespace fermata {

void ParallelFor(int64_t count, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const int64_t ranges = std::min<int64_t>(ThreadsFor(count * work), count);
  std::vector<std::thread> threads;
  for (int64_t range = 1; range < ranges; ++range) {
    threads.emplace_back([=] { body(count * range / ranges, count * (range + 1) / ranges); });
  }
  body(0, count / ranges);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fermata
