#ifndef FERMATA_CLIENT_BENCH_TURN_H_
#define FERMATA_CLIENT_BENCH_TURN_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "client/bench/measurements.h"
#include "client/bench/session_pool.h"
#include "client/client.h"

namespace fermata::bench {

// The run's clock. Thread-safe.
class Clock {
 public:
  double Now() const { return std::chrono::duration<double>(Steady::now() - begin_).count(); }
  std::chrono::steady_clock::time_point TimePoint(double seconds) const {
    return begin_ +
           std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  using Steady = std::chrono::steady_clock;
  Steady::time_point begin_ = Steady::now();
};

// What the threads of all turns count, for showing how far the run is.
struct LiveCounts {
  std::atomic<int64_t> tokens = 0;
};

class Turn;

// Is told of turns that have ended, by gRPC's threads.
class TurnSink {
 public:
  virtual ~TurnSink() = default;
  // The turn's record is whole, and nothing touches the turn any more.
  virtual void OnEnd(Turn* turn) = 0;
};

// One request on its way: notes when what comes.
class Turn : public client::GenerateHandler {
 public:
  Turn(const Clock& clock, LiveCounts& counts, TurnSink* sink)
      : clock_(clock), counts_(counts), sink_(sink) {}

  void Start(client::Client& client, const v1::GenerateRequest& request);
  // To be called by the thread that called Start.
  void Cancel();

  void OnEvent(const v1::GenerateResponse& event) override;
  void OnDone(const absl::Status& status) override;

  RequestRecord record;
  std::optional<SessionTurn> session;

 private:
  void OnStarted(const v1::Started& started);
  void OnChunk(const v1::Chunk& chunk);

  const Clock& clock_;
  LiveCounts& counts_;
  TurnSink* sink_;
  std::shared_ptr<client::GenerateCall> call_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_TURN_H_
