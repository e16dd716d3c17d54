#include "engine/base/parallel.h"

#include <algorithm>
#include <atomic>

#include <omp.h>

#include "engine/base/thread_pool.h"

namespace fermata {
namespace {

// Ranges for each thread: with several, a thread that begins late or is interrupted does fewer.
constexpr int64_t kThreadRanges = 4;

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

int OpenMpThreadsFor(int64_t work) {
  constexpr int64_t kDearness = 8;  // Beside our own threads.
  return ThreadsFor(work / kDearness);
}

void UseOpenMpThreads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

void ParallelFor(int64_t count, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const int threads = ThreadsFor(count * work);
  const int64_t ranges = threads == 1 ? 1 : std::min(count, threads * kThreadRanges);
  ThreadPool::Instance().Run(threads, ranges, [&](int64_t range) {
    body(count * range / ranges, count * (range + 1) / ranges);
  });
}

}  // namespace fermata
