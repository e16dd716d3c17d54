#ifndef FERMATA_SERVER_GRPC_GENERATION_SERVICE_H_
#define FERMATA_SERVER_GRPC_GENERATION_SERVICE_H_

#include "fermata/v1/generation.grpc.pb.h"
#include "server/calls/front.h"

namespace fermata {

// fermata.v1.Generation over the engine. `front` must outlive the service.
class GenerationService final : public v1::Generation::CallbackService {
 public:
  explicit GenerationService(const Front& front) : front_(front) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Attach(grpc::CallbackServerContext* context,
                                                         const v1::AttachRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const v1::ScoreRequest* request,
                                  v1::ScoreResponse* response) override;

 private:
  const Front& front_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_GENERATION_SERVICE_H_
