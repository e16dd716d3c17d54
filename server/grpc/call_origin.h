#ifndef FERMATA_SERVER_GRPC_CALL_ORIGIN_H_
#define FERMATA_SERVER_GRPC_CALL_ORIGIN_H_

#include "grpcpp/server_context.h"
#include "server/calls/front.h"

namespace fermata {

// Whence a call of this front came: with the trace that its metadata tells of, by `traceparent`.
CallOrigin OriginOf(const grpc::CallbackServerContext& context);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_CALL_ORIGIN_H_
