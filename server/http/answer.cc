#include "server/http/answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "server/http/http_error.h"

namespace fermata {
CallOrigin OriginOf(const HttpRequest& request) {
  const auto named = [](const auto& header) {
    return absl::EqualsIgnoreCase(header.first, "traceparent");
  };
  // Of several it can not be told which one holds.
  const bool one = std::ranges::count_if(request.headers, named) == 1;
  return {.front = FrontKind::kHttp,
          .trace = TraceContext::FromHeader(one ? request.Header("traceparent") : std::nullopt)};
}

Awaitable<void> AnswerLater(const Front& front, HttpExchange& exchange, Worker& worker,
                            std::string_view method,
                            std::function<absl::StatusOr<HttpResponse>(Runtime&)> work) {
  CallRecord record(front.metrics, method, "", OriginOf(exchange.request()));
  const absl::StatusOr<Runtime*> runtime = front.serving->runtime();
  absl::StatusOr<HttpResponse> answer = HttpResponse();
  if (!runtime.ok()) {
    answer = runtime.status();
  } else {
    std::function<absl::StatusOr<HttpResponse>()> bound =
        [runtime = *runtime, work = std::move(work)] { return work(*runtime); };
    answer = co_await RunOn(worker, exchange, std::move(bound));
  }
  co_await FinishCall(record, exchange, std::move(answer));
}

Awaitable<void> FinishCall(CallRecord& record, HttpExchange& exchange,
                           absl::StatusOr<HttpResponse> answer) {
  if (answer.ok()) {
    record.Succeed();
  } else {
    record.Fail(answer.status());
  }
  HttpResponse response = answer.ok() ? *std::move(answer) : ErrorResponse(answer.status());
  co_await exchange.Reply(std::move(response));
}

}  // namespace fermata
