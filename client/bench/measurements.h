#ifndef FERMATA_CLIENT_BENCH_MEASUREMENTS_H_
#define FERMATA_CLIENT_BENCH_MEASUREMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fermata/v1/generation.pb.h"

namespace fermata::bench {

// Times in seconds since the run's start.
struct Window {
  double begin = 0;
  double end = 0;

  bool Holds(double seconds) const { return seconds >= begin && seconds <= end; }
};

// What a request has come to.
struct RequestRecord {
  double intended = 0;  // When it was to be sent. Latencies count from here.
  double sendable = 0;  // When a session was idle for it; else as above.
  double sent = 0;
  double ended = 0;
  std::optional<double> first_token;
  double last_token = 0;
  std::vector<float> gaps;  // Between tokens, seconds. Tokens that come together have gaps of 0.
  // Arrival and number of the tokens of each chunk.
  std::vector<std::pair<double, int32_t>> chunks;
  int64_t prompt_tokens = 0;  // 0 while they are not known.
  std::optional<v1::Complete> complete;
  absl::Status status;
  bool cut = false;           // The run's end cancelled it.
  bool resumed = false;       // The session went on where its last turn ended.
  bool lost_session = false;  // It was to, and began anew.
};

// Of all values exactly: the smallest value that at least a share q of them does not exceed.
struct Quantiles {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Quantiles QuantilesOf(std::vector<float> values);

struct Goals {
  std::optional<double> time_to_first_token;  // Seconds.
  std::optional<double> inter_token;          // Of a request on average.
};

struct Summary {
  double seconds = 0;  // That throughput is counted over.
  // Requests whose intended time is after the warm-up.
  int64_t sent = 0;
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t cut = 0;
  int64_t warmup_requests = 0;  // Before, which nothing else below counts.
  std::map<std::pair<std::string, std::string>, int64_t> failures;  // By code and reason.
  std::map<std::string, int64_t> finish_reasons;
  int64_t prompt_tokens = 0;  // Of completed requests.
  int64_t generated_tokens = 0;
  int64_t received_tokens = 0;  // Of all requests, warm-up too, over the whole run.
  // In the window alone, whichever request they belong to.
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;
  double generated_tokens_per_second = 0;
  Quantiles time_to_first_token, inter_token, end_to_end, send_delay;
  Quantiles server_queue, server_time_to_first_token;  // As the server says, from its side.
  // Of completed requests, those that meet the goals.
  int64_t good = 0;
  double good_per_second = 0;
  int64_t resumed_turns = 0;
  int64_t lost_sessions = 0;
};

// Collects what requests come to. Not thread-safe.
class Measurements {
 public:
  Measurements(double warmup, const Goals& goals) : warmup_(warmup), goals_(goals) {}

  void Add(RequestRecord record);
  // Of requests that have ended until `end`, when sending stopped; the window of throughput is from
  // the warm-up's end to then.
  Summary Summarise(double end) const;

 private:
  // Something at a time, for what is counted in the window, whose end is known last.
  struct Event {
    double seconds = 0;
    int64_t count = 0;
  };

  bool Meets(const RequestRecord& record) const;
  void AddCompleted(const RequestRecord& record);

  double warmup_;
  Goals goals_;
  Summary sums_;
  std::vector<float> first_, gaps_, whole_, delay_, server_queue_, server_first_;
  std::vector<Event> ends_, good_ends_, prompt_tokens_, tokens_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_MEASUREMENTS_H_
