#ifndef FERMATA_SERVER_GRPC_MODELS_SERVICE_H_
#define FERMATA_SERVER_GRPC_MODELS_SERVICE_H_

#include "fermata/v1/models.grpc.pb.h"
#include "server/calls/front.h"

namespace fermata {

// fermata.v1.Models: what the server serves. `front` must outlive the service.
class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(const Front& front) : front_(front) {}

  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetModelRequest* request, v1::Model* response) override;

 private:
  const Front& front_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_MODELS_SERVICE_H_
