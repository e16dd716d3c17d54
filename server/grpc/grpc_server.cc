#include "server/grpc/grpc_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "server/grpc/generation_service.h"
#include "server/grpc/models_service.h"
#include "server/grpc/sessions_service.h"

namespace fermata {

struct GrpcServer::Impl {
  explicit Impl(const Front& front) : generation(front), sessions(front), models(front) {}

  GenerationService generation;
  SessionsService sessions;
  ModelsService models;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

namespace {

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void Configure(const ServerConfig& config, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(config.max_message_bytes);
  builder.SetMaxSendMessageSize(config.max_message_bytes);
  // Else a second server on the same port would take half of the calls instead of failing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const KeepaliveOptions& keepalive = config.keepalive;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(keepalive.time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(keepalive.timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A prefill sends nothing for long, so pings need no data between them.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(keepalive.min_ping_interval));
}

}  // namespace

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const ServerConfig& config,
                                                              const Front& front) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(front);
  grpc::ServerBuilder builder;
  Configure(config, builder);
  builder.AddListeningPort(config.grpc_address, grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->generation);
  builder.RegisterService(&impl->sessions);
  builder.RegisterService(&impl->models);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return absl::UnavailableError(absl::StrCat("--grpc_address: can not listen on ",
                                               config.grpc_address,
                                               " (in use, not of this machine, or not allowed)"));
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer(std::move(impl)));
  server->SetHealthy(false);
  return server;
}

int GrpcServer::port() const { return impl_->port; }

void GrpcServer::SetHealthy(bool healthy) {
  impl_->server->GetHealthCheckService()->SetServingStatus(healthy);
}

void GrpcServer::Shutdown(absl::Duration grace) {
  if (impl_->server == nullptr) return;
  impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  impl_->server->Wait();
  impl_->server.reset();
}

}  // namespace fermata
