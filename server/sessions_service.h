#ifndef FERMATA_SERVER_SESSIONS_SERVICE_H_
#define FERMATA_SERVER_SESSIONS_SERVICE_H_

#include "fermata/v1/session.grpc.pb.h"
#include "server/front.h"

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

 private:
  const Front& front_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_SESSIONS_SERVICE_H_
