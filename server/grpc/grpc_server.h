#ifndef FERMATA_SERVER_GRPC_GRPC_SERVER_H_
#define FERMATA_SERVER_GRPC_GRPC_SERVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/calls/front.h"
#include "server/config/flags.h"

namespace fermata {

// The gRPC front: all services of fermata/v1, health checking and reflection on one port.
class GrpcServer {
 public:
  // Binds and serves; health is NOT_SERVING until SetHealthy. UNAVAILABLE naming the address when
  // it can not be bound. `front` must outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const ServerConfig& config,
                                                           const Front& front);
  ~GrpcServer();

  int port() const;
  // What grpc.health.v1 tells for the server as a whole.
  void SetHealthy(bool healthy);
  // Refuses new calls, waits for those that run up to `grace`, cancels the rest, and returns when
  // all have ended.
  void Shutdown(absl::Duration grace);

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_GRPC_SERVER_H_
