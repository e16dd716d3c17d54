#ifndef FERMATA_SERVER_CALLS_KEPT_ANSWERS_H_
#define FERMATA_SERVER_CALLS_KEPT_ANSWERS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fermata/v1/generation.pb.h"
#include "server/calls/turn_stream.h"
#include "server/observe/gauges.h"

namespace fermata {

// The turns that can be found by their request's id: those that run, and for a while the answers of
// those that have ended, so that a client which lost its connection gets the same answer instead of a
// second turn. An id belongs to the tenant that gave it. Turns that had no effect are forgotten at
// once: the same request may run again.
//
// Bounded in memory: the answer that ended first goes, and when that is not enough, what is not read
// yet of the turn that asks for more is all that is kept of it. Thread-safe; must outlive the turns.
class KeptAnswers {
 public:
  struct Options {
    absl::Duration retention;  // After a turn's end.
    int64_t memory_bytes = 0;
    std::function<absl::Time()> clock = absl::Now;
  };
  using Stats = KeptAnswersStats;
  explicit KeptAnswers(const Options& options);
  ~KeptAnswers();
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;

  struct Opened {
    std::shared_ptr<TurnStream> stream;
    bool is_new = false;  // The turn must be run.
  };
  // The turn of `request`, which must have an id: the one that is known by that id if it was asked for
  // by the same request (but for priority, time limit and on_disconnect), else the one that `make`
  // makes, with this keeper. ALREADY_EXISTS with reason REQUEST_ID_REUSED when it was another request.
  using Make =
      std::function<std::shared_ptr<TurnStream>(std::shared_ptr<TurnStream::Keeper> keeper)>;
  absl::StatusOr<Opened> Open(const v1::GenerateRequest& request, const Make& make);

  // NOT_FOUND with reason REQUEST_NOT_FOUND when none is known by that id.
  absl::StatusOr<std::shared_ptr<TurnStream>> Find(const std::string& tenant,
                                                   const std::string& request_id);

  Stats stats();

 private:
  class Entry;
  using Key = std::pair<std::string, std::string>;  // Tenant, request id.
  using Streams = std::vector<std::shared_ptr<TurnStream>>;

  bool Add(Entry& entry, int64_t bytes);
  void Ended(Entry& entry, bool had_effect);
  // These with the mutex held. The streams that they return must be dropped without it: a turn's end
  // can be long.
  Streams RemoveExpired();
  std::shared_ptr<TurnStream> Remove(Entry& entry);

  const Options options_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::deque<std::shared_ptr<Entry>> ended_;  // Of entries_, in the order of their ends.
  int64_t bytes_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_KEPT_ANSWERS_H_
