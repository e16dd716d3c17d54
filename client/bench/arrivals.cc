#include "client/bench/arrivals.h"

#include <cmath>

namespace fermata::bench {

void PoissonArrivals::Pop() { next_ += -std::log1p(-random_.Uniform()) / rate_; }

std::optional<Arrival> TraceArrivals::Next() const {
  if (rest_.empty()) return std::nullopt;
  return Arrival{rest_.front().seconds / speed_, &rest_.front()};
}

ClosedLoop::ClosedLoop(int64_t clients, double think_seconds) : think_seconds_(think_seconds) {
  for (int64_t i = 0; i < clients; ++i) due_.push(0);
}

std::optional<Arrival> ClosedLoop::Next() const {
  if (due_.empty()) return std::nullopt;
  return Arrival{due_.top()};
}

std::unique_ptr<Arrivals> MakeArrivals(const Options& options, std::span<const TraceEntry> trace) {
  switch (options.load) {
    case LoadKind::kPoisson:
      return std::make_unique<PoissonArrivals>(options.rate, options.seed);
    case LoadKind::kConstant:
      return std::make_unique<ConstantArrivals>(options.rate);
    case LoadKind::kTrace:
      return std::make_unique<TraceArrivals>(trace, options.trace_speed);
    case LoadKind::kClosedLoop:
      break;
  }
  return std::make_unique<ClosedLoop>(options.concurrency,
                                      absl::ToDoubleSeconds(options.think_time));
}

}  // namespace fermata::bench
