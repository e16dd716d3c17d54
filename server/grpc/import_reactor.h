#ifndef FERMATA_SERVER_GRPC_IMPORT_REACTOR_H_
#define FERMATA_SERVER_GRPC_IMPORT_REACTOR_H_

#include "fermata/v1/session.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/front.h"

namespace fermata {

// Begins to answer one call of Import, whose reply is `response`. The reactor owns itself until the
// call is done; `front` must outlive it.
grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(
    const Front& front, const grpc::CallbackServerContext& context, v1::Session* response);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_IMPORT_REACTOR_H_
