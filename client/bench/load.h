#ifndef FERMATA_CLIENT_BENCH_LOAD_H_
#define FERMATA_CLIENT_BENCH_LOAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/bench/arrivals.h"
#include "client/bench/measurements.h"
#include "client/bench/options.h"
#include "client/bench/requests.h"
#include "client/bench/session_pool.h"
#include "client/bench/turn.h"
#include "client/client.h"

namespace fermata::bench {

enum class EndedBy { kDuration, kRequests, kTrace, kInterrupt, kUnreachable };

// How far a run is.
struct LoadProgress {
  double seconds = 0;
  double share = 0;  // Of the run's end, as far as that is known.
  int64_t ended = 0;
  int64_t failed = 0;
  int64_t in_flight = 0;
  int64_t tokens = 0;
};

struct LoadResult {
  Summary summary;
  EndedBy ended_by = EndedBy::kDuration;
  double seconds = 0;  // Of all, what runs at the end included.
  int64_t peak_in_flight = 0;
  int64_t unsent = 0;         // That still waited for an idle session in the end.
  int64_t session_waits = 0;  // Requests that waited for an idle session.
  double cpu_seconds = 0;     // Of this process, in the window of throughput.
};

// Sends the requests of a run and takes what comes back. The thread that calls Run sends them all;
// events come on gRPC's few threads, which do no more than note them.
class Load : public TurnSink {
 public:
  // All must outlive it. `clients` are taken in turn; `sessions` is null for requests of none.
  struct Parts {
    const Options* options = nullptr;
    const Clock* clock = nullptr;
    Arrivals* arrivals = nullptr;
    SessionPool* sessions = nullptr;
    const RequestMaker* requests = nullptr;
    std::vector<client::Client*> clients;
    double trace_seconds = 0;  // When the last request of a trace comes.
  };
  explicit Load(const Parts& parts);

  // `progress` is called now and then.
  LoadResult Run(const std::function<void(const LoadProgress&)>& progress);
  // Sends nothing more and cancels what runs. Callable from any thread.
  void Stop();

  void OnEnd(Turn* turn) override;

 private:
  struct Waiting {
    Arrival arrival;
    bool for_session = false;
  };

  void Reap();
  void OnFailure(const absl::Status& status, double ended);
  void SendDue(double now);
  bool Send(Waiting& waiting);
  std::optional<EndedBy> Ending(double now);
  void CancelAll();
  void Sleep(double now);
  LoadProgress ProgressNow(double now) const;

  const Parts parts_;
  const Options& options_;
  const Clock& clock_;
  const double warmup_;
  const std::optional<double> duration_;
  Measurements measurements_;
  LiveCounts counts_;
  LoadResult result_;

  // Of the thread that runs.
  std::deque<Waiting> waiting_;
  std::unordered_map<Turn*, std::unique_ptr<Turn>> in_flight_;
  int64_t sent_ = 0;
  int64_t sent_after_warmup_ = 0;
  int64_t ended_ = 0;
  int64_t failed_ = 0;
  double last_end_ = 0;
  double cpu_at_warmup_ = 0;
  bool warm_ = false;
  bool cancelled_ = false;
  std::optional<double> unreachable_since_;
  std::optional<double> stopped_;  // When sending stopped.

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Turn*> finished_;
  bool interrupted_ = false;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_LOAD_H_
