#ifndef FERMATA_SERVER_GRPC_GENERATE_REACTOR_H_
#define FERMATA_SERVER_GRPC_GENERATE_REACTOR_H_

#include "fermata/v1/generation.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/front.h"

namespace fermata {

// Each begins to answer one call. The reactor owns itself until the call is done; `front` must outlive
// it.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    const Front& front, const grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request);
grpc::ServerWriteReactor<v1::GenerateResponse>* StartAttach(
    const Front& front, const grpc::CallbackServerContext& context,
    const v1::AttachRequest& request);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_GENERATE_REACTOR_H_
