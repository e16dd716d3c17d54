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

// Adds ids to `ids` as sessions come to be.
absl::Status ForkUntil(SessionStore& sessions, size_t count, Ids& ids) {
  while (ids.size() < count) {
    FERMATA_ASSIGN_OR_RETURN(
        SessionRecord fork,
        sessions.Fork(ids.front(), {.target = Options(), .place = {}, .expected = {}}));
    ids.push_back(std::move(fork.id));
  }
  return absl::OkStatus();
}

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

Awaitable<absl::Status> TemporarySessions::Create() {
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (!runtime.ok()) co_return runtime.status();
  const auto ids = std::make_shared<Ids>();
  std::function<absl::StatusOr<HttpResponse>()> work = [sessions = &(*runtime)->sessions(),
                                                        ids]() -> absl::StatusOr<HttpResponse> {
    FERMATA_ASSIGN_OR_RETURN(SessionRecord record, sessions->Create(Options()));
    ids->push_back(std::move(record.id));
    return HttpResponse();
  };
  const absl::StatusOr<HttpResponse> done =
      co_await RunOn(*front_.sessions, exchange_, std::move(work));
  ids_ = *ids;
  co_return done.status();
}

Awaitable<absl::Status> TemporarySessions::Fork(int count) {
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (!runtime.ok()) co_return runtime.status();
  const auto ids = std::make_shared<Ids>(ids_);
  std::function<absl::StatusOr<HttpResponse>()> work = [sessions = &(*runtime)->sessions(), ids,
                                                        count]() -> absl::StatusOr<HttpResponse> {
    FERMATA_RETURN_IF_ERROR(ForkUntil(*sessions, static_cast<size_t>(count), *ids));
    return HttpResponse();
  };
  const absl::StatusOr<HttpResponse> done =
      co_await RunOn(*front_.sessions, exchange_, std::move(work));
  ids_ = *ids;
  co_return done.status();
}

Awaitable<void> TemporarySessions::Delete() {
  const absl::StatusOr<Runtime*> runtime = front_.serving->runtime();
  if (!runtime.ok()) co_return;
  Notifier pause(exchange_.executor());
  for (int i = 0; i < kMostDeletions && !ids_.empty(); ++i) {
    if (i > 0) co_await pause.Wait(kBetweenDeletions);
    const auto ids = std::make_shared<Ids>(ids_);
    std::function<absl::StatusOr<HttpResponse>()> work = [sessions = &(*runtime)->sessions(),
                                                          ids]() -> absl::StatusOr<HttpResponse> {
      *ids = DeleteFree(*sessions, *ids);
      return HttpResponse();
    };
    const absl::StatusOr<HttpResponse> done =
        co_await RunOn(*front_.sessions, exchange_, std::move(work));
    if (done.ok()) ids_ = *ids;  // Else too many wait, and the next round tries again.
  }
}

}  // namespace fermata
