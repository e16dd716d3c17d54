#ifndef FERMATA_SERVER_GRPC_SESSIONS_SERVICE_H_
#define FERMATA_SERVER_GRPC_SESSIONS_SERVICE_H_

#include "fermata/v1/session.grpc.pb.h"
#include "server/calls/front.h"

namespace fermata {

// fermata.v1.Sessions over the session store. `front` must outlive the service.
class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(const Front& front) : front_(front) {}

  grpc::ServerUnaryReactor* Create(grpc::CallbackServerContext* context,
                                   const v1::CreateSessionRequest* request,
                                   v1::Session* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetSessionRequest* request,
                                v1::Session* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListSessionsRequest* request,
                                 v1::ListSessionsResponse* response) override;
  grpc::ServerUnaryReactor* Update(grpc::CallbackServerContext* context,
                                   const v1::UpdateSessionRequest* request,
                                   v1::Session* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteSessionRequest* request,
                                   v1::DeleteSessionResponse* response) override;
  grpc::ServerUnaryReactor* Fork(grpc::CallbackServerContext* context,
                                 const v1::ForkSessionRequest* request,
                                 v1::Session* response) override;
  grpc::ServerUnaryReactor* Rewind(grpc::CallbackServerContext* context,
                                   const v1::RewindSessionRequest* request,
                                   v1::Session* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerWriteReactor<v1::SnapshotPart>* Export(
      grpc::CallbackServerContext* context, const v1::ExportSessionRequest* request) override;
  grpc::ServerReadReactor<v1::ImportSessionRequest>* Import(grpc::CallbackServerContext* context,
                                                            v1::Session* response) override;

 private:
  const Front& front_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_SESSIONS_SERVICE_H_
