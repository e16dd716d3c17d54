#ifndef FERMATA_SERVER_HTTP_OPERATIONAL_ROUTES_H_
#define FERMATA_SERVER_HTTP_OPERATIONAL_ROUTES_H_

#include "server/calls/runtime.h"
#include "server/http/router.h"
#include "server/observe/metrics.h"

namespace fermata {

// Adds GET /metrics, /healthz (200 while the process lives) and /readyz (200 while serving, 503
// with reason LOADING or DRAINING otherwise). The arguments must outlive the router.
void AddOperationalRoutes(const ServingState& serving, const Metrics& metrics, HttpRouter& router);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_OPERATIONAL_ROUTES_H_
