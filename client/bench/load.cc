#include "client/bench/load.h"

#include <algorithm>
#include <utility>

#include <sys/resource.h>

#include "client/error.h"

namespace fermata::bench {
namespace {

// How long a client of a closed loop rests after a request that failed, when the server does not
// say; without, a server that refuses would be asked thousands of times a second.
constexpr double kRestAfterFailure = 0.1;
// A run ends when the server could not be reached for so long.
constexpr double kUnreachable = 10;
constexpr double kTick = 0.2;  // Between looks at how far the run is.

double CpuSeconds() {
  constexpr double kMicro = 1e-6;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + kMicro * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::optional<double> ToSeconds(const std::optional<absl::Duration>& duration) {
  if (!duration) return std::nullopt;
  return absl::ToDoubleSeconds(*duration);
}

// Not an answer of the server's.
bool IsUnreachable(const absl::Status& status) {
  return absl::IsUnavailable(status) && client::DetailsOf(status).reason.empty();
}

std::optional<double> DurationOf(const Options& options) {
  if (options.duration) return ToSeconds(options.duration);
  if (options.requests || options.load == LoadKind::kTrace) return std::nullopt;
  return absl::ToDoubleSeconds(options.warmup + kDefaultDuration);
}

}  // namespace

Load::Load(const Parts& parts)
    : parts_(parts),
      options_(*parts.options),
      clock_(*parts.clock),
      warmup_(absl::ToDoubleSeconds(options_.warmup)),
      duration_(DurationOf(options_)),
      measurements_(warmup_, {.time_to_first_token = ToSeconds(options_.slo_ttft),
                              .inter_token = ToSeconds(options_.slo_itl)}) {}

LoadResult Load::Run(const std::function<void(const LoadProgress&)>& progress) {
  const double grace = absl::ToDoubleSeconds(options_.grace);
  while (true) {
    Reap();
    const double now = clock_.Now();
    if (!warm_ && now >= warmup_) {
      warm_ = true;
      cpu_at_warmup_ = CpuSeconds();
    }
    if (!stopped_) {
      SendDue(now);
      if (const auto ending = Ending(now)) {
        result_.ended_by = *ending;
        result_.cpu_seconds = warm_ ? CpuSeconds() - cpu_at_warmup_ : 0;
        stopped_ = now;
      }
    }
    if (stopped_) {
      if (in_flight_.empty()) break;
      const bool over = result_.ended_by == EndedBy::kInterrupt || now >= *stopped_ + grace;
      if (over && !cancelled_) CancelAll();
    }
    progress(ProgressNow(now));
    Sleep(now);
  }
  result_.seconds = clock_.Now();
  result_.unsent = static_cast<int64_t>(waiting_.size());
  const bool by_time = result_.ended_by == EndedBy::kDuration;
  // A run that sends so many requests is over with the last of their answers.
  const bool by_count =
      result_.ended_by == EndedBy::kRequests || result_.ended_by == EndedBy::kTrace;
  const double end = by_time ? *duration_ : by_count ? last_end_ : *stopped_;
  if (by_count && warm_) result_.cpu_seconds = CpuSeconds() - cpu_at_warmup_;
  result_.summary = measurements_.Summarise(end);
  return std::move(result_);
}

void Load::Stop() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  wake_.notify_one();
}

void Load::OnEnd(Turn* turn) {
  const std::lock_guard lock(mutex_);
  finished_.push_back(turn);
  wake_.notify_one();
}

// Takes in what has ended.
void Load::Reap() {
  std::vector<Turn*> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (Turn* turn : finished) {
    const auto node = in_flight_.extract(turn);
    RequestRecord& record = turn->record;
    const bool ok = record.status.ok() && record.complete;
    if (record.status.ok() && !ok) {
      record.status = absl::InternalError("the stream ended without `complete`");
    }
    record.cut = cancelled_ && absl::IsCancelled(record.status);
    ++ended_;
    last_end_ = std::max(last_end_, record.ended);
    if (turn->session) parts_.sessions->Release(*turn->session, ok);
    if (!ok && !record.cut) {
      OnFailure(record.status, record.ended);
    } else {
      unreachable_since_.reset();
      parts_.arrivals->OnEnd(record.ended);
    }
    measurements_.Add(std::move(record));
  }
}

void Load::OnFailure(const absl::Status& status, double ended) {
  ++failed_;
  if (!IsUnreachable(status)) {
    unreachable_since_.reset();
  } else if (!unreachable_since_) {
    unreachable_since_ = ended;
  }
  const auto retry = ToSeconds(client::DetailsOf(status).retry_after);
  parts_.arrivals->OnEnd(ended + retry.value_or(kRestAfterFailure));
}

void Load::SendDue(double now) {
  const auto due = [&](const Arrival& arrival) {
    return arrival.seconds <= now && (!duration_ || arrival.seconds < *duration_);
  };
  const auto enough = [&] { return options_.requests && sent_after_warmup_ >= *options_.requests; };
  while (!enough()) {
    if (waiting_.empty()) {
      const std::optional<Arrival> next = parts_.arrivals->Next();
      if (!next || !due(*next)) return;
      parts_.arrivals->Pop();
      waiting_.push_back({*next});
    }
    if (!Send(waiting_.front())) break;
    waiting_.pop_front();
  }
  // Those that wait for a session keep their place.
  for (auto next = parts_.arrivals->Next(); !enough() && next && due(*next);
       next = parts_.arrivals->Next()) {
    parts_.arrivals->Pop();
    waiting_.push_back({*next, true});
    ++result_.session_waits;
  }
}

// False when there is no idle session for it.
bool Load::Send(Waiting& waiting) {
  std::optional<SessionTurn> session;
  if (parts_.sessions != nullptr) {
    session = parts_.sessions->Take();
    if (!session) {
      if (!waiting.for_session) ++result_.session_waits;
      waiting.for_session = true;
      return false;
    }
  }
  auto turn = std::make_unique<Turn>(clock_, counts_, this);
  const double intended = waiting.arrival.seconds;
  turn->record.intended = intended;
  // A session became idle at the latest when the last request ended.
  turn->record.sendable = waiting.for_session ? std::max(intended, last_end_) : intended;
  turn->session = session;
  const v1::GenerateRequest request = parts_.requests->Make(sent_, waiting.arrival, session);
  Turn* started = turn.get();
  in_flight_.emplace(started, std::move(turn));
  client::Client& client = *parts_.clients[static_cast<size_t>(sent_) % parts_.clients.size()];
  ++sent_;
  if (intended >= warmup_) ++sent_after_warmup_;
  result_.peak_in_flight =
      std::max(result_.peak_in_flight, static_cast<int64_t>(in_flight_.size()));
  started->Start(client, request);
  return true;
}

// Whether sending is over, and why.
std::optional<EndedBy> Load::Ending(double now) {
  {
    const std::lock_guard lock(mutex_);
    if (interrupted_) return EndedBy::kInterrupt;
  }
  if (unreachable_since_ && now - *unreachable_since_ >= kUnreachable) {
    return EndedBy::kUnreachable;
  }
  if (options_.requests && sent_after_warmup_ >= *options_.requests) return EndedBy::kRequests;
  if (duration_ && now >= *duration_) return EndedBy::kDuration;
  if (options_.load == LoadKind::kTrace && waiting_.empty() && !parts_.arrivals->Next()) {
    return EndedBy::kTrace;
  }
  return std::nullopt;
}

void Load::CancelAll() {
  cancelled_ = true;
  for (const auto& [turn, owner] : in_flight_) turn->Cancel();
}

void Load::Sleep(double now) {
  double until = now + kTick;
  if (!stopped_) {
    const auto next = parts_.arrivals->Next();
    if (next && waiting_.empty()) until = std::min(until, next->seconds);
    if (duration_) until = std::min(until, *duration_);
  }
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, clock_.TimePoint(until),
                   [&] { return !finished_.empty() || (interrupted_ && !stopped_); });
  // Who interrupts while the last requests finish does not want to wait for them.
  if (interrupted_ && stopped_) result_.ended_by = EndedBy::kInterrupt;
}

LoadProgress Load::ProgressNow(double now) const {
  LoadProgress progress{.seconds = now,
                        .ended = ended_,
                        .failed = failed_,
                        .in_flight = static_cast<int64_t>(in_flight_.size()),
                        .tokens = counts_.tokens.load(std::memory_order_relaxed)};
  const auto share = [&](double done, double of) {
    if (of > 0) progress.share = std::max(progress.share, done / of);
  };
  if (duration_) share(now, *duration_);
  if (options_.requests) {
    share(static_cast<double>(sent_after_warmup_), static_cast<double>(*options_.requests));
  }
  if (options_.load == LoadKind::kTrace) share(now, parts_.trace_seconds);
  return progress;
}

}  // namespace fermata::bench
