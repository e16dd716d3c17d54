#ifndef FERMATA_SERVER_HTTP_ANSWER_H_
#define FERMATA_SERVER_HTTP_ANSWER_H_

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/front.h"
#include "server/http/exchange.h"

namespace fermata {

// Runs `work` on `worker`, and returns what it returned. RESOURCE_EXHAUSTED with reason QUEUE_FULL when
// too many wait for it. `work` may outlive the caller, when the server stops: it must own what it
// uses, but for what outlives the server.
Awaitable<absl::StatusOr<HttpResponse>> RunOn(Worker& worker, HttpExchange& exchange,
                                              std::function<absl::StatusOr<HttpResponse>()> work);

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
