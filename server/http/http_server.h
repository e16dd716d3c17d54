#ifndef FERMATA_SERVER_HTTP_HTTP_SERVER_H_
#define FERMATA_SERVER_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config/flags.h"
#include "server/http/router.h"

namespace fermata {

// The HTTP front: connections as coroutines on one thread. Handlers run on that thread, and must not
// block it.
class HttpServer {
 public:
  struct Parts {
    // Must outlive the server.
    const HttpRouter* router = nullptr;
    // Told how many connections there are, on the server's thread.
    std::function<void(int)> connections_changed = [](int) {};
  };
  // Binds and serves. UNAVAILABLE naming the address when it can not be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options, Parts parts);
  // Closes all connections.
  ~HttpServer();

  int port() const;
  // Takes no new connections and requests, waits up to `grace` for the answers that are under way,
  // and closes all connections. Call once.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_HTTP_SERVER_H_
