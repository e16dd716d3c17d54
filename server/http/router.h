#ifndef FERMATA_SERVER_ROUTER_H_
#define FERMATA_SERVER_ROUTER_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/message.h"

namespace fermata {

// Answers a request by the one call of Reply, or by a stream.
using HttpHandler = std::function<Awaitable<void>(HttpExchange&)>;

// Who answers a request.
struct HttpRoute {
  enum class Body {
    kWhole,    // In HttpRequest::body, up to the server's limit.
    kInParts,  // The handler reads it, and answers for its size.
  };

  std::string method;
  // Matched whole, without the query. A segment "{id}" stands for any one segment, which becomes a
  // parameter.
  std::string path;
  HttpHandler handler;
  Body body = Body::kWhole;
};

// Filled before use, and thread-safe then as far as the handlers are.
class HttpRouter {
 public:
  // GET answers HEAD as well. Of the routes of a method, a path of fixed segments goes before one
  // with parameters.
  void Add(HttpRoute route);
  // For an answer that is at hand.
  void Add(std::string method, std::string path,
           std::function<HttpResponse(const HttpRequest&)> answer);

  // Finds who answers `request`, and sets its parameters. Null and the answer otherwise: 404 for an
  // unknown path, 405 with Allow for another method on a known one, 400 for a parameter that is not
  // UTF-8.
  struct Found {
    const HttpRoute* route = nullptr;
    HttpResponse answer;
  };
  Found Find(HttpRequest& request) const;

  // All routes, in the order in which they were added.
  const std::vector<HttpRoute>& routes() const { return routes_; }

 private:
  std::vector<HttpRoute> routes_;
  std::vector<std::vector<std::string>> patterns_;  // The segments of each route's path.
};

}  // namespace fermata

#endif  // FERMATA_SERVER_ROUTER_H_
