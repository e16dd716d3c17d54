#include "client/bench/session_pool.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace fermata::bench {
namespace {

constexpr int kTries = 64;
constexpr uint64_t kStream = 0x5e55;
constexpr int64_t kManyDialogues = int64_t{1} << 40;

}  // namespace

SessionPool::SessionPool(const SessionPoolOptions& options)
    : options_(options),
      random_(options.seed, kStream),
      places_(static_cast<size_t>(options.size)),
      idle_(options.size) {
  double sum = 0;
  for (int64_t i = 1; i <= options.size; ++i) {
    sum += std::pow(static_cast<double>(i), -options.zipf);
    sums_.push_back(sum);
  }
}

int64_t SessionPool::Draw() {
  const auto it = std::ranges::upper_bound(sums_, random_.Uniform() * sums_.back());
  return std::min<int64_t>(it - sums_.begin(), options_.size - 1);
}

int64_t SessionPool::DrawIdle() {
  // Drawing again until an idle one comes is drawing from the idle ones; where few are left, the
  // next idle one after the last draw does.
  int64_t at = Draw();
  for (int i = 1; i < kTries && !places_[at].idle; ++i) at = Draw();
  while (!places_[at].idle) at = (at + 1) % options_.size;
  return at;
}

std::optional<SessionTurn> SessionPool::Take() {
  if (idle_ == 0) return std::nullopt;
  const int64_t at = options_.each_first && untaken_ < options_.size ? untaken_++ : DrawIdle();
  Place& place = places_[at];
  if (place.id.empty()) {
    place.id = absl::StrCat(options_.prefix, made_.size());
    place.dialogue = random_.Below(kManyDialogues);
    made_.push_back(place.id);
  }
  place.idle = false;
  --idle_;
  return SessionTurn{.place = at, .id = place.id, .turn = place.turns, .dialogue = place.dialogue};
}

void SessionPool::Release(const SessionTurn& turn, bool ok) {
  Place& place = places_[turn.place];
  place.idle = true;
  ++idle_;
  if (ok) ++place.turns;
  if (options_.turns > 0 && place.turns >= options_.turns) place = Place();
}

}  // namespace fermata::bench
