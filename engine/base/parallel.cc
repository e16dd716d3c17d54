#include "engine/base/parallel.h"

#include <algorithm>
#include <atomic>

#include <omp.h>

namespace fermata {
namespace {

// OpenMP's own setting belongs to the thread that makes it, and the thread that computes is seldom
// the one that reads the flags.
std::atomic<int>& Threads() {
  static std::atomic<int> threads = omp_get_max_threads();
  return threads;
}

std::atomic<int64_t> min_work_of_a_thread = kMinThreadWork;

}  // namespace

void SetComputeThreads(int threads, int64_t min_thread_work) {
  Threads() = std::max(threads, 1);
  min_work_of_a_thread = std::max<int64_t>(min_thread_work, 1);
}

int ComputeThreads() { return Threads(); }

int ThreadsFor(int64_t work) {
  return static_cast<int>(std::clamp<int64_t>(work / min_work_of_a_thread, 1, ComputeThreads()));
}

void UseOpenMpThreads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace fermata
