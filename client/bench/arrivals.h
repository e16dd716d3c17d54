#ifndef FERMATA_CLIENT_BENCH_ARRIVALS_H_
#define FERMATA_CLIENT_BENCH_ARRIVALS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "client/bench/options.h"
#include "client/bench/random.h"
#include "client/bench/trace.h"

namespace fermata::bench {

// A request that is to be sent.
struct Arrival {
  double seconds = 0;                 // When, since the run's start.
  const TraceEntry* entry = nullptr;  // What, for those of a trace.
};

// When requests come. Not thread-safe.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // The next one; nullopt where there is none, or none before some request has ended.
  virtual std::optional<Arrival> Next() const = 0;
  // Takes the next one off.
  virtual void Pop() = 0;
  // A request has ended, and its client may come again after `seconds`.
  virtual void OnEnd(double /*seconds*/) {}
};

// Evenly, the first at 0.
class ConstantArrivals : public Arrivals {
 public:
  explicit ConstantArrivals(double rate) : rate_(rate) {}
  std::optional<Arrival> Next() const override {
    return Arrival{static_cast<double>(count_) / rate_};
  }
  void Pop() override { ++count_; }

 private:
  double rate_;
  int64_t count_ = 0;
};

// With gaps that are drawn from the exponential distribution of mean 1/rate: what many people give
// who know nothing of each other.
class PoissonArrivals : public Arrivals {
 public:
  PoissonArrivals(double rate, uint64_t seed) : rate_(rate), random_(seed) { Pop(); }
  std::optional<Arrival> Next() const override { return Arrival{next_}; }
  void Pop() override;

 private:
  double rate_;
  Random random_;
  double next_ = 0;
};

// `speed` times as fast as the trace. The entries must outlive this.
class TraceArrivals : public Arrivals {
 public:
  TraceArrivals(std::span<const TraceEntry> entries, double speed)
      : rest_(entries), speed_(speed) {}
  std::optional<Arrival> Next() const override;
  void Pop() override { rest_ = rest_.subspan(1); }

 private:
  std::span<const TraceEntry> rest_;
  double speed_;
};

// `clients` that each come at 0, and again `think_seconds` after each answer.
class ClosedLoop : public Arrivals {
 public:
  ClosedLoop(int64_t clients, double think_seconds);
  std::optional<Arrival> Next() const override;
  void Pop() override { due_.pop(); }
  void OnEnd(double seconds) override { due_.push(seconds + think_seconds_); }

 private:
  double think_seconds_;
  std::priority_queue<double, std::vector<double>, std::greater<>> due_;
};

// As the options say. The trace must outlive them.
std::unique_ptr<Arrivals> MakeArrivals(const Options& options, std::span<const TraceEntry> trace);

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_ARRIVALS_H_
