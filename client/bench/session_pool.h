#ifndef FERMATA_CLIENT_BENCH_SESSION_POOL_H_
#define FERMATA_CLIENT_BENCH_SESSION_POOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/random.h"

namespace fermata::bench {

struct SessionPoolOptions {
  int64_t size = 0;
  int64_t turns = 0;  // Of one session, then a new one takes its place; 0: without end.
  double zipf = 0;    // The i-th place is chosen with weight 1/i^zipf; 0: all alike.
  uint64_t seed = 1;
  bool each_first = false;  // Each place is taken once, in order, before any is chosen.
  std::string prefix;       // Of the sessions' ids.
};

// A session that a turn has taken.
struct SessionTurn {
  int64_t place = 0;
  std::string id;
  int64_t turn = 0;      // Number of the turn in the session, from 0.
  int64_t dialogue = 0;  // A random number that stays for the session.
};

// Sessions that requests come back to, each in at most one turn. Not thread-safe.
class SessionPool {
 public:
  explicit SessionPool(const SessionPoolOptions& options);

  // Takes one of the idle sessions; nullopt when all are in a turn.
  std::optional<SessionTurn> Take();
  // Its turn has ended. One that has failed may not have happened, so the session's count of turns
  // stays.
  void Release(const SessionTurn& turn, bool ok);

  // Every session that was taken, for deleting them.
  const std::vector<std::string>& made() const { return made_; }

 private:
  struct Place {
    std::string id;  // Empty: no turn yet.
    int64_t turns = 0;
    int64_t dialogue = 0;
    bool idle = true;
  };
  int64_t Draw();
  int64_t DrawIdle();

  SessionPoolOptions options_;
  Random random_;
  std::vector<Place> places_;
  std::vector<double> sums_;  // Of the weights of places, up to each.
  int64_t untaken_ = 0;       // Of `each_first`: the first place that has not had its turn.
  int64_t idle_ = 0;
  std::vector<std::string> made_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_SESSION_POOL_H_
