#ifndef FERMATA_SERVER_SERVE_H_
#define FERMATA_SERVER_SERVE_H_

#include "absl/status/status.h"
#include "server/config/flags.h"
#include "server/signals.h"

namespace fermata {

// The server's whole life: binds both ports, loads the model, serves until a signal, drains, and sends
// sessions to the disk, where there is one. An error when it could not begin to serve, or sessions were
// lost at the end, saying why in one line.
absl::Status Serve(const ServerConfig& config, Signals& signals);

}  // namespace fermata

#endif  // FERMATA_SERVER_SERVE_H_
