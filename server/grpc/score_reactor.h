#ifndef FERMATA_SERVER_GRPC_SCORE_REACTOR_H_
#define FERMATA_SERVER_GRPC_SCORE_REACTOR_H_

#include "fermata/v1/generation.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/front.h"

namespace fermata {

// Begins to answer one call of Score. The reactor owns itself until the call is done; `front` must
// outlive it.
grpc::ServerUnaryReactor* StartScore(const Front& front, const grpc::CallbackServerContext& context,
                                     const v1::ScoreRequest& request, v1::ScoreResponse* response);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_SCORE_REACTOR_H_
