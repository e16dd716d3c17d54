#include <functional>
#include <utility>

#include "server/http/answer.h"
#include "server/http/json.h"
#include "server/openai/identified_exchange.h"
#include "server/openai/openai_request.h"
#include "server/openai/reply.h"
#include "server/openai/service.h"

namespace fermata {
namespace {

using nlohmann::ordered_json;

ordered_json ModelJson(const ModelInfo& model, absl::Time since) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", absl::ToUnixSeconds(since)},
          {"owned_by", "fermata"}};
}

Awaitable<void> AnswerWith(SharedService service, HttpExchange& outer, std::string_view method,
                           std::function<absl::StatusOr<ordered_json>(const ModelInfo&)> make) {
  IdentifiedExchange exchange(outer);
  CallRecord record(service->front().metrics, method, exchange.id(), OriginOf(outer.request()));
  const absl::StatusOr<Runtime*> runtime = service->front().serving->runtime();
  absl::StatusOr<HttpResponse> answer = HttpResponse();
  if (!runtime.ok()) {
    answer = runtime.status();
  } else if (const absl::StatusOr<ordered_json> json = make((*runtime)->model()); json.ok()) {
    answer = JsonResponse(*json);
  } else {
    answer = json.status();
  }
  co_await FinishCall(record, exchange, std::move(answer));
}

}  // namespace

Awaitable<void> ListModels(SharedService service, HttpExchange& exchange) {
  const absl::Time since = service->since();
  return AnswerWith(std::move(service), exchange, "ListModels",
                    [since](const ModelInfo& model) -> absl::StatusOr<ordered_json> {
                      ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}};
                      list["data"].push_back(ModelJson(model, since));
                      return list;
                    });
}

Awaitable<void> GetModel(SharedService service, HttpExchange& exchange) {
  const absl::Time since = service->since();
  const std::string id = exchange.request().parameters.at("id");
  return AnswerWith(std::move(service), exchange, "GetModel",
                    [since, id](const ModelInfo& model) -> absl::StatusOr<ordered_json> {
                      if (id == model.name || id == "default") return ModelJson(model, since);
                      return ModelNotFound(model.name);
                    });
}

}  // namespace fermata
