#include "server/rest/routes.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "server/calls/session_calls.h"
#include "server/calls/text_calls.h"
#include "server/http/answer.h"
#include "server/rest/embedded.h"
#include "server/rest/replies.h"
#include "server/rest/requests.h"
#include "server/rest/snapshot_routes.h"

namespace fermata {
namespace {

// A call of server/calls over HTTP.
template <typename Request, typename Reply>
struct Call {
  std::string_view method;  // As it is counted.
  absl::StatusOr<Request> (*read)(const HttpRequest&);
  absl::Status (*run)(const Front&, Runtime&, const Request&, Reply*);
};

// GCC deduces it by itself, clang-tidy 14 does not.
template <typename Request, typename Reply>
Call(std::string_view, absl::StatusOr<Request> (*)(const HttpRequest&),
     absl::Status (*)(const Front&, Runtime&, const Request&, Reply*)) -> Call<Request, Reply>;

template <typename Request, typename Reply, typename Shown>
HttpHandler Answer(const Front& front, Worker& worker, Call<Request, Reply> call,
                   HttpResponse (*show)(const Shown&)) {
  return [&front, &worker, call, show](HttpExchange& exchange) {
    std::function<absl::StatusOr<HttpResponse>(Runtime&)> work =
        [&front, call, show,
         http = exchange.request()](Runtime& runtime) -> absl::StatusOr<HttpResponse> {
      FERMATA_ASSIGN_OR_RETURN(const Request request, call.read(http));
      Reply reply;
      FERMATA_RETURN_IF_ERROR(call.run(front, runtime, request, &reply));
      return show(reply);
    };
    return AnswerLater(front, exchange, worker, call.method, std::move(work));
  };
}

HttpHandler Stream(const Front& front, Awaitable<void> (*handler)(const Front&, HttpExchange&)) {
  return [&front, handler](HttpExchange& exchange) { return handler(front, exchange); };
}

HttpResponse OpenApi(const HttpRequest&) {
  return JsonResponse(std::string(embedded::kOpenapiJson));
}

}  // namespace

void AddRestRoutes(const Front& front, HttpRouter& router) {
  const auto add = [&](std::string method, std::string path, auto call, auto show) {
    router.Add({.method = std::move(method),
                .path = std::move(path),
                .handler = Answer(front, *front.sessions, call, show)});
  };
  add("GET", "/v1/sessions", Call{"ListSessions", ToListSessions, ListSessions}, ToReply);
  add("POST", "/v1/sessions", Call{"CreateSession", ToCreateSession, CreateSession},
      ToNewSessionReply);
  const std::string session = "/v1/sessions/{id}";
  add("GET", session, Call{"GetSession", ToGetSession, GetSession}, ToSessionReply);
  add("PATCH", session, Call{"UpdateSession", ToUpdateSession, UpdateSession}, ToSessionReply);
  add("DELETE", session, Call{"DeleteSession", ToDeleteSession, DeleteSession}, ToReply);
  add("POST", session + "/fork", Call{"ForkSession", ToForkSession, ForkSession},
      ToNewSessionReply);
  add("POST", session + "/rewind", Call{"RewindSession", ToRewindSession, RewindSession},
      ToSessionReply);
  add("GET", session + "/checkpoints", Call{"ListCheckpoints", ToListCheckpoints, ListCheckpoints},
      ToReply);
  router.Add(
      {.method = "GET", .path = session + "/export", .handler = Stream(front, ExportSession)});
  router.Add({.method = "POST",
              .path = "/v1/sessions/import",
              .handler = Stream(front, ImportSession),
              .body = HttpRoute::Body::kInParts});
  router.Add(
      {.method = "GET",
       .path = "/v1/model",
       .handler = Answer(front, *front.helper, Call{"GetModel", ToGetModel, GetModel}, ToReply)});
  router.Add("GET", "/openapi.json", OpenApi);
}

}  // namespace fermata
