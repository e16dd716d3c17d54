#ifndef FERMATA_ENGINE_LAYERS_PART_CLOCK_H_
#define FERMATA_ENGINE_LAYERS_PART_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "engine/kernels/matmul.h"

namespace fermata {

// Where the time of forward passes goes, for benchmarks: while a PartClock lives, the thread that
// made it notes there how long its products and recurrences take, threads that help included. What
// is in no part is all else: norms, mixing, gates. Costs nothing while there is none.
class PartClock {
 public:
  struct Part {
    std::chrono::nanoseconds time{0};
    // What must be read or written at least, weights or states, and what is computed.
    int64_t bytes = 0;
    int64_t multiply_adds = 0;
  };

  PartClock();
  ~PartClock();
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;

  // By name, as "3 x 768 x 768 int8".
  const std::map<std::string, Part>& parts() const { return parts_; }

  // The calling thread's; null when it has none.
  static PartClock* Current();

  // Calls `work` and adds its time to the part `name`.
  void Time(const std::string& name, const Part& cost, absl::FunctionRef<void()> work);

 private:
  std::map<std::string, Part> parts_;
};

// MultiplyAll of kernels/matmul.h, on the thread's clock. All products of layers go this way.
void MultiplyTimed(std::span<const Product> products, int64_t rows);

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_PART_CLOCK_H_
