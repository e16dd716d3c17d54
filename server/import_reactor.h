#ifndef FERMATA_SERVER_IMPORT_REACTOR_H_
#define FERMATA_SERVER_IMPORT_REACTOR_H_

#include "fermata/v1/session.pb.h"
#include "grpcpp/support/server_callback.h"
#include "server/front.h"

namespace fermata {

// Begins to answer one call of Import, whose reply is `response`. The reactor owns itself until the
// call is done; `front` must outlive it.
grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(const Front& front,
                                                               v1::Session* response);

}  // namespace fermata

#endif  // FERMATA_SERVER_IMPORT_REACTOR_H_
