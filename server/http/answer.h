#ifndef FERMATA_SERVER_HTTP_ANSWER_H_
#define FERMATA_SERVER_HTTP_ANSWER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/front.h"
#include "server/http/exchange.h"
#include "server/http/notifier.h"

namespace fermata {

// Runs `work` on `worker`, and returns what it returned, a Status or a StatusOr. RESOURCE_EXHAUSTED
// with reason QUEUE_FULL when too many wait for it. `work` may outlive the caller, when the server
// stops: it must own what it uses, but for what outlives the server.
template <typename Result>
Awaitable<Result> RunOn(Worker& worker, HttpExchange& exchange, std::function<Result()> work) {
  struct Place {
    std::mutex mutex;
    std::optional<Result> result;
  };
  Notifier notifier(exchange.executor());
  const auto place = std::make_shared<Place>();
  const bool posted = worker.TryPost([place, work = std::move(work), notify = notifier.notify()] {
    Result result = work();
    {
      const std::lock_guard lock(place->mutex);
      place->result = std::move(result);
    }
    notify();
  });
  if (!posted) co_return TooManyWait();
  while (true) {
    {
      const std::lock_guard lock(place->mutex);
      if (place->result.has_value()) co_return *std::move(place->result);
    }
    co_await notifier.Wait(absl::Seconds(60));
  }
}

// Whence `request` came: with the trace that its header `traceparent` tells of.
CallOrigin OriginOf(const HttpRequest& request);

// A call that `worker` answers, counted under `method`, which must be a literal; its failure becomes
// the error's answer.
Awaitable<void> AnswerLater(const Front& front, HttpExchange& exchange, Worker& worker,
                            std::string_view method,
                            std::function<absl::StatusOr<HttpResponse>(Runtime&)> work);

// Counts a call that ended, and sends `answer` or its error.
Awaitable<void> FinishCall(CallRecord& record, HttpExchange& exchange,
                           absl::StatusOr<HttpResponse> answer);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_ANSWER_H_
