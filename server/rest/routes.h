#ifndef FERMATA_SERVER_REST_ROUTES_H_
#define FERMATA_SERVER_REST_ROUTES_H_

#include "server/calls/front.h"
#include "server/http/router.h"

namespace fermata {

// Adds /v1/sessions and what is below it, /v1/model, and /openapi.json, which describes all routes of
// the server. Requests and replies are the messages of fermata/v1 in Protobuf's JSON mapping, with
// the fields' names as they are there; docs/rest.md tells the rest. The calls are counted under the
// names of gRPC's. `front` must outlive the router.
void AddRestRoutes(const Front& front, HttpRouter& router);

}  // namespace fermata

#endif  // FERMATA_SERVER_REST_ROUTES_H_
