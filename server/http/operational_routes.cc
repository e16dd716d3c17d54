#include "server/http/operational_routes.h"

#include "engine/base/error.h"
#include "server/http/http_error.h"

namespace fermata {
namespace {

HttpResponse Ready(const ServingState& serving) {
  switch (serving.phase()) {
    case ServingState::Phase::kLoading:
      return ErrorResponse(serving.runtime().status());
    case ServingState::Phase::kDraining:
      return HttpError(503, "DRAINING", "the server is shutting down");
    case ServingState::Phase::kServing:
      break;
  }
  return {.body = "ready\n", .headers = {}};
}

}  // namespace

void AddOperationalRoutes(const ServingState& serving, const Metrics& metrics, HttpRouter& router) {
  router.Add("GET", "/metrics", [&metrics](const HttpRequest&) {
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = metrics.Text(),
                        .headers = {}};
  });
  router.Add("GET", "/healthz",
             [](const HttpRequest&) { return HttpResponse{.body = "alive\n", .headers = {}}; });
  router.Add("GET", "/readyz", [&serving](const HttpRequest&) { return Ready(serving); });
}

}  // namespace fermata
