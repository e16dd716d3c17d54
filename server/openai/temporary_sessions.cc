#include "server/openai/temporary_sessions.h"

#include <functional>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "server/http/answer.h"
#include "server/http/notifier.h"

namespace fermata {
namespace {

constexpr absl::Duration kTimeToLive = absl::Minutes(1);
// A turn that was cancelled ends within one step.
constexpr absl::Duration kBetweenDeletions = absl::Milliseconds(20);
constexpr int kMostDeletions = 250;

SessionStore::CreateOptions Options() {
  SessionStore::CreateOptions options;
  options.labels = {{"temporary", "choices"}};
  options.ttl = kTimeToLive;
  options.durability = Durability::kMemory;
  options.max_checkpoints = 0;
  return options;
}

using Ids = std::vector<std::string>;

// Those that are in a turn are left.
Ids DeleteFree(SessionStore& sessions, const Ids& ids) {
  Ids left;
  for (const std::string& id : ids) {
    if (absl::IsAborted(sessions.Delete(id))) left.push_back(id);
  }
  return left;
}

}  // namespace

TemporarySessions::~TemporarySessions() {
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (ids_.empty() || !runtime.ok()) return;
  front_.sessions->Post(
      [sessions = &(*runtime)->sessions(), ids = std::move(ids_)] { DeleteFree(*sessions, ids); });
}

Awaitable<absl::Status> TemporarySessions::RunOnStore(StoreWork work) {
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (!runtime.ok()) co_return runtime.status();
  const auto ids = std::make_shared<Ids>(ids_);
  std::function<absl::Status()> bound = [sessions = &(*runtime)->sessions(), ids,
                                         work = std::move(work)] { return work(*sessions, *ids); };
  const absl::Status done = co_await RunOn(*front_.sessions, exchange_, std::move(bound));
  ids_ = *ids;  // Also of work that came only so far.
  co_return done;
}

Awaitable<absl::Status> TemporarySessions::Create() {
  return RunOnStore([](SessionStore& sessions, Ids& ids) -> absl::Status {
    FERMATA_ASSIGN_OR_RETURN(SessionRecord record, sessions.Create(Options()));
    ids.push_back(std::move(record.id));
    return absl::OkStatus();
  });
}

Awaitable<absl::Status> TemporarySessions::Fork(int count) {
  return RunOnStore([count](SessionStore& sessions, Ids& ids) -> absl::Status {
    while (ids.size() < static_cast<size_t>(count)) {
      FERMATA_ASSIGN_OR_RETURN(
          SessionRecord fork,
          sessions.Fork(ids.front(), {.target = Options(), .place = {}, .expected = {}}));
      ids.push_back(std::move(fork.id));
    }
    return absl::OkStatus();
  });
}

Awaitable<void> TemporarySessions::Delete() {
  Notifier pause(exchange_.executor());
  for (int i = 0; i < kMostDeletions && !ids_.empty(); ++i) {
    if (i > 0) co_await pause.Wait(kBetweenDeletions);
    StoreWork work = [](SessionStore& sessions, Ids& ids) {
      ids = DeleteFree(sessions, ids);
      return absl::OkStatus();
    };
    const absl::Status done = co_await RunOnStore(std::move(work));
    done.IgnoreError();  // Too many wait: the next round tries again.
  }
}

}  // namespace fermata
