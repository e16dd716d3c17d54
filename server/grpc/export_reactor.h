#ifndef FERMATA_SERVER_GRPC_EXPORT_REACTOR_H_
#define FERMATA_SERVER_GRPC_EXPORT_REACTOR_H_

#include "fermata/v1/session.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/front.h"

namespace fermata {

// Begins to answer one call of Export: a snapshot in parts, one write outstanding. The reactor owns
// itself until the call is done; `front` must outlive it.
grpc::ServerWriteReactor<v1::SnapshotPart>* StartExport(const Front& front,
                                                        const grpc::CallbackServerContext& context,
                                                        const v1::ExportSessionRequest& request);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_EXPORT_REACTOR_H_
