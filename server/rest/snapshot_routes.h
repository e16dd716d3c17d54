#ifndef FERMATA_SERVER_REST_SNAPSHOT_ROUTES_H_
#define FERMATA_SERVER_REST_SNAPSHOT_ROUTES_H_

#include "server/calls/front.h"
#include "server/http/exchange.h"

namespace fermata {

// Handlers; `front` outlives them.

// Sends a session's snapshot as it is, in a stream whose head tells size and checksum.
Awaitable<void> ExportSession(const Front& front, HttpExchange& exchange);

// Makes a session of the snapshot that is the body, which it reads in parts.
Awaitable<void> ImportSession(const Front& front, HttpExchange& exchange);

}  // namespace fermata

#endif  // FERMATA_SERVER_REST_SNAPSHOT_ROUTES_H_
