#include "client/bench/measurements.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/time/time.h"
#include "client/error.h"

namespace fermata::bench {
namespace {

double Seconds(const google::protobuf::Duration& duration) {
  constexpr double kNano = 1e-9;
  return static_cast<double>(duration.seconds()) + kNano * duration.nanos();
}

// The smallest value that at least a share `q` of the sorted ones does not exceed.
double At(const std::vector<float>& sorted, double q) {
  const auto rank = static_cast<int64_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[static_cast<size_t>(std::max<int64_t>(rank, 1) - 1)];
}

}  // namespace

Quantiles QuantilesOf(std::vector<float> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.count = static_cast<int64_t>(values.size()),
          .mean = sum / static_cast<double>(values.size()),
          .p50 = At(values, 0.5),
          .p90 = At(values, 0.9),
          .p95 = At(values, 0.95),
          .p99 = At(values, 0.99),
          .max = values.back()};
}

bool Measurements::Meets(const RequestRecord& record) const {
  if (goals_.time_to_first_token && record.first_token &&
      *record.first_token - record.intended > *goals_.time_to_first_token) {
    return false;
  }
  if (!goals_.inter_token || record.gaps.empty()) return true;
  const double decode = record.last_token - *record.first_token;
  return decode / static_cast<double>(record.gaps.size()) <= *goals_.inter_token;
}

void Measurements::AddCompleted(const RequestRecord& record) {
  ++sums_.completed;
  ++sums_.finish_reasons[v1::FinishReason_Name(record.complete->finish_reason())];
  sums_.prompt_tokens += record.complete->usage().prompt_tokens();
  sums_.generated_tokens += record.complete->usage().generated_tokens();
  if (record.first_token) {
    first_.push_back(static_cast<float>(*record.first_token - record.intended));
  }
  gaps_.insert(gaps_.end(), record.gaps.begin(), record.gaps.end());
  whole_.push_back(static_cast<float>(record.ended - record.intended));
  const v1::Timings& timings = record.complete->timings();
  server_queue_.push_back(static_cast<float>(Seconds(timings.queue())));
  if (timings.has_time_to_first_token()) {
    server_first_.push_back(static_cast<float>(Seconds(timings.time_to_first_token())));
  }
  if (Meets(record)) {
    ++sums_.good;
    good_ends_.push_back({record.ended, 1});
  }
}

void Measurements::Add(RequestRecord record) {
  const bool completed = record.status.ok() && record.complete;
  for (const auto& [seconds, tokens] : record.chunks) {
    sums_.received_tokens += tokens;
    tokens_.push_back({seconds, tokens});
  }
  if (completed) ends_.push_back({record.ended, 1});
  if (record.first_token) prompt_tokens_.push_back({*record.first_token, record.prompt_tokens});
  if (record.intended < warmup_) {
    ++sums_.warmup_requests;
    return;
  }
  ++sums_.sent;
  sums_.resumed_turns += record.resumed ? 1 : 0;
  sums_.lost_sessions += record.lost_session ? 1 : 0;
  delay_.push_back(static_cast<float>(record.sent - record.sendable));
  if (completed) {
    AddCompleted(record);
  } else if (record.cut) {
    ++sums_.cut;
  } else {
    ++sums_.failed;
    ++sums_.failures[{absl::StatusCodeToString(record.status.code()),
                      client::DetailsOf(record.status).reason}];
  }
}

Summary Measurements::Summarise(double end) const {
  Summary summary = sums_;
  const Window window{warmup_, end};
  summary.seconds = std::max(end - warmup_, 0.0);
  const auto per_second = [&](const std::vector<Event>& events) {
    int64_t count = 0;
    for (const Event& event : events) count += window.Holds(event.seconds) ? event.count : 0;
    return summary.seconds > 0 ? static_cast<double>(count) / summary.seconds : 0;
  };
  summary.requests_per_second = per_second(ends_);
  summary.prompt_tokens_per_second = per_second(prompt_tokens_);
  summary.generated_tokens_per_second = per_second(tokens_);
  summary.good_per_second = per_second(good_ends_);
  summary.time_to_first_token = QuantilesOf(first_);
  summary.inter_token = QuantilesOf(gaps_);
  summary.end_to_end = QuantilesOf(whole_);
  summary.server_queue = QuantilesOf(server_queue_);
  summary.server_time_to_first_token = QuantilesOf(server_first_);
  summary.send_delay = QuantilesOf(delay_);
  return summary;
}

}  // namespace fermata::bench
