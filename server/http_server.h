#ifndef FERMATA_SERVER_HTTP_SERVER_H_
#define FERMATA_SERVER_HTTP_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http_router.h"

namespace fermata {

struct HttpOptions {
  std::string address;  // HOST:PORT; port 0 picks a free one.
  uint32_t max_header_bytes = 8 << 10;
  uint64_t max_body_bytes = 64 << 10;
  // For a whole request to arrive, the wait for it included, and for a reply to be taken.
  absl::Duration idle_timeout = absl::Seconds(60);
  int max_connections = 256;  // More are closed as they come.
};

// HTTP/1.1 on one thread, with keep-alive and pipelining. Handlers run on that thread, and must be
// short. A request that is not HTTP or beyond a limit is answered with 400, 413 or 431, and its
// connection closed.
class HttpServer {
 public:
  // Binds and serves. UNAVAILABLE naming the address when it can not be bound. `router` must
  // outlive the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           const HttpRouter& router);
  // Closes all connections.
  ~HttpServer();

  int port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_SERVER_H_
