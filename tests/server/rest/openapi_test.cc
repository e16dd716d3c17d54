// The OpenAPI document against the server's routes. That its answers are as the document has them,
// tests/e2e holds against the running server.

#include <algorithm>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/http/operational_routes.h"
#include "server/http/router.h"
#include "server/openai/routes.h"
#include "server/rest/embedded.h"
#include "server/rest/routes.h"

namespace fermata {
namespace {

std::set<std::string> Documented() {
  const auto document = nlohmann::json::parse(embedded::kOpenapiJson);
  std::set<std::string> calls;
  for (const auto& [path, operations] : document.at("paths").items()) {
    for (const auto& [key, operation] : operations.items()) {
      if (key == "parameters") continue;
      std::string method = key;
      std::ranges::transform(method, method.begin(),
                             [](unsigned char c) { return std::toupper(c); });
      calls.insert(method + " " + path);
    }
  }
  return calls;
}

TEST(OpenApiTest, TheDocumentHasTheRoutesThatTheServerHas) {
  HttpRouter router;
  const ServingState serving;
  const Metrics metrics([] { return ServingStats(); });
  Worker helper("helper", 1);
  Worker sessions("sessions", 1);
  const Front front = {.helper = &helper, .sessions = &sessions};
  AddOperationalRoutes(serving, metrics, router);
  AddOpenAiRoutes(std::make_shared<OpenAiService>(front, OpenAiOptions()), router);
  AddRestRoutes(front, router);
  std::set<std::string> routes;
  for (const HttpRoute& route : router.routes()) routes.insert(route.method + " " + route.path);
  EXPECT_EQ(Documented(), routes);
}

}  // namespace
}  // namespace fermata
